//! `pilothouse logs`, `messages` and `tools`: what stands in the journal.

use clap::Args;
use pilothouse_domain::{AgentSessionId, SubAgentId, Timestamp};
use pilothouse_functions::api::Page;
use serde::Serialize;

use super::target::Target;
use crate::client::inputs::Slice;
use crate::client::{ApiError, Records};
use crate::context::{Context, now};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Which records.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The most of them
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    pub limit: usize,
    /// Go on after an earlier answer: its nextCursor
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Only what was taken in since then, for example 2026-11-21T20:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<Timestamp>,
    /// Only what is about this subagent
    #[arg(long, value_name = "ID")]
    pub subagent: Option<SubAgentId>,
}

/// The most that one answer of the server holds.
const PAGE: usize = 100;

impl Which {
    /// Gathers pages until there is nothing more, or enough.
    async fn gather<T>(
        self,
        cx: &Context,
        fetch: impl AsyncFn(AgentSessionId, &Records) -> Result<Page<T>, ApiError>,
    ) -> Result<Page<T>, CliError> {
        let id = self.target.id(cx).await?;
        let mut all = Page { items: Vec::new(), next_cursor: self.cursor };
        let (sub_agent_id, since) = (self.subagent, self.since);
        loop {
            let limit = u32::try_from((self.limit - all.items.len()).min(PAGE)).ok();
            let slice = Slice { limit, cursor: all.next_cursor.take() };
            let page = fetch(id, &Records { slice, sub_agent_id: sub_agent_id.clone(), since }).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.items.len() >= self.limit {
                return Ok(all);
            }
        }
    }
}

/// Writes a page, and how to see the next one.
fn show<T: Serialize>(
    cx: &Context,
    page: &Page<T>,
    noun: &str,
    human: impl FnOnce(&[T]) -> String,
) -> Result<Exit, CliError> {
    cx.answer(page, |page, style, _| match (&page.items[..], &page.next_cursor) {
        ([], None) => format!("There are no {noun} yet.\n"),
        (items, None) => human(items),
        (items, Some(cursor)) => human(items) + &style.dim(&format!("There are more: --cursor {cursor}\n")),
    })?;
    Ok(Exit::Done)
}

/// Show a session's logs. To see them live: pilothouse watch SESSION --logs
#[derive(Debug, Args)]
pub struct Logs {
    /// Which.
    #[command(flatten)]
    pub which: Which,
}

impl Logs {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let page = self.which.gather(cx, async |id, records| cx.client.logs(id, records).await).await?;
        show(cx, &page, "logs", |items| {
            items.iter().map(|chunk| output::logs::chunk(chunk, cx.style)).collect()
        })
    }
}

/// Show a session's conversation: you, the agent, and its subagents.
#[derive(Debug, Args)]
pub struct Messages {
    /// Which.
    #[command(flatten)]
    pub which: Which,
}

impl Messages {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let page = self.which.gather(cx, async |id, records| cx.client.messages(id, records).await).await?;
        let now = now();
        show(cx, &page, "messages", |items| {
            items.iter().map(|message| output::messages::message(message, cx.style, now)).collect()
        })
    }
}

/// Show a session's tool calls with their results.
#[derive(Debug, Args)]
pub struct Tools {
    /// Which.
    #[command(flatten)]
    pub which: Which,
}

impl Tools {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let page = self.which.gather(cx, async |id, records| cx.client.tool_calls(id, records).await).await?;
        show(cx, &page, "tool calls", |items| output::tools::list(items, cx.style, now()))
    }
}
