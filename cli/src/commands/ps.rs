//! `pilothouse ps`.

use clap::Args;
use pilothouse_api::sessions::SessionSummary;
use pilothouse_client::inputs::PageQuery;
use pilothouse_domain::session::AgentSessionStatus;
use serde_json::json;

use super::parse;
use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::sessions::list;

/// The maximum page size of the server.
const PAGE: u32 = 100;

/// List sessions, latest first.
#[derive(Debug, Args)]
pub struct Ps {
    /// Include sessions that are Completed, Cancelled or out of context
    #[arg(long, short)]
    pub all: bool,
    /// Only sessions with this status, for example Running or Idle
    #[arg(long, value_parser = parse::status, value_name = "STATUS")]
    pub status: Option<AgentSessionStatus>,
    /// The maximum number of sessions
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub limit: usize,
}

impl Ps {
    /// Whether a session has ended permanently. A failed one can be retried.
    fn hides(&self, session: &SessionSummary) -> bool {
        let over = session.status.is_terminal() && session.status != AgentSessionStatus::Failed;
        over && !self.all && self.status.is_none()
    }

    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let mut page_query = PageQuery { limit: Some(PAGE), cursor: None };
        let mut sessions = Vec::new();
        while sessions.len() < self.limit {
            let page = ctx.client.sessions(self.status, &page_query).await?;
            sessions.extend(page.items.into_iter().filter(|session| !self.hides(session)));
            page_query.cursor = page.next_cursor;
            if page_query.cursor.is_none() {
                break;
            }
        }
        let more = page_query.cursor.is_some() || sessions.len() > self.limit;
        sessions.truncate(self.limit);
        if ctx.json {
            write_json(&json!({ "items": sessions }))?;
        } else if sessions.is_empty() {
            let all = if self.all { "" } else { " (--all includes finished ones)" };
            write(&format!("There are no sessions{all}. Start one with `pilothouse run \"what to do\"`.\n"))?;
        } else {
            let hint = ctx.style.dim("There are more; see --limit.\n");
            write(&(list(&sessions, ctx.style, now()) + if more { &hint } else { "" }))?;
        }
        Ok(Exit::Done)
    }
}
