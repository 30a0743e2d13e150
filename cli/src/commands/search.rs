//! `pilothouse search`.

use clap::Args;
use pilothouse_api::Page;
use pilothouse_client::inputs::PageQuery;

use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{sessions, text_matches};

/// The matches in a session without `--limit`.
const LIMIT: usize = 50;
/// The maximum page size of the server.
const PAGE: usize = 200;

/// Find sessions by words of their names, labels and objectives, or words in one session.
#[derive(Debug, Args)]
pub struct Search {
    /// The words to search for
    #[arg(value_name = "WORD", required = true)]
    pub words: Vec<String>,
    /// Find the words in the messages, tool calls, questions and notices of this session: its id, 4 or more characters of it, or @last
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// The maximum number of matches in a session [default: 50]
    #[arg(long, value_name = "NUMBER", requires = "session")]
    pub limit: Option<usize>,
    /// Continue after an earlier page: its nextCursor
    #[arg(long, value_name = "CURSOR", requires = "session")]
    pub cursor: Option<String>,
}

impl Search {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match &self.session {
            Some(session) => self.find_in_session(ctx, session).await,
            None => self.find_sessions(ctx).await,
        }
    }

    async fn find_sessions(&self, ctx: &Context) -> Result<Exit, CliError> {
        let results = ctx.client.search_sessions(&self.words.join(" ")).await?;
        if ctx.json {
            write_json(&results)?;
        } else if results.items.is_empty() {
            write("No session has these words in its name, labels or objective.\n")?;
        } else {
            let found: Vec<_> = results.items.into_iter().map(|hit| hit.session).collect();
            write(&sessions::list(&found, ctx.style, now()))?;
        }
        Ok(Exit::Done)
    }

    /// A request searches a part of the journal, so pages without a match are skipped.
    async fn find_in_session(&self, ctx: &Context, session: &str) -> Result<Exit, CliError> {
        let id = ctx.session_id(session).await?;
        let (query, limit) = (self.words.join(" "), self.limit.unwrap_or(LIMIT));
        let mut all = Page { items: Vec::new(), next_cursor: self.cursor.clone() };
        loop {
            let size = u32::try_from((limit - all.items.len()).min(PAGE)).ok();
            let slice = PageQuery { limit: size, cursor: all.next_cursor.take() };
            let page = ctx.client.search_in_session(id, &query, &slice).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.items.len() >= limit {
                break;
            }
        }
        ctx.print(&all, |all, style, now| {
            let mut text = text_matches::list(&all.items, style, now);
            if let Some(cursor) = &all.next_cursor {
                text.push_str(&style.dim(&format!("There may be more: --cursor {cursor}\n")));
            }
            text
        })?;
        Ok(Exit::Done)
    }
}
