//! `pilothouse logs`, `messages` and `tools`: views of the journal.

use clap::Args;
use pilothouse_api::Page;
use pilothouse_client::inputs::PageQuery;
use pilothouse_client::{ApiError, RecordFilter};
use pilothouse_domain::{AgentSessionId, SubAgentId, Timestamp};
use serde::Serialize;

use super::target::Target;
use crate::context::{Context, now};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Filters and paging of records.
#[derive(Debug, Clone, Args)]
pub struct Which {
    #[command(flatten)]
    pub target: Target,
    /// The maximum number of records
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    pub limit: usize,
    /// Continue after an earlier page: its nextCursor
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Only records since this time, for example 2026-11-21T20:00:00Z
    #[arg(long, value_name = "TIME")]
    pub since: Option<Timestamp>,
    /// Only records of this subagent
    #[arg(long, value_name = "ID")]
    pub subagent: Option<SubAgentId>,
}

/// The maximum page size of the server.
const PAGE: usize = 100;

impl Which {
    /// Reads pages until the limit or the end.
    async fn gather<T>(
        self,
        ctx: &Context,
        fetch: impl AsyncFn(AgentSessionId, &RecordFilter) -> Result<Page<T>, ApiError>,
    ) -> Result<Page<T>, CliError> {
        let id = self.target.id(ctx).await?;
        let mut all = Page { items: Vec::new(), next_cursor: self.cursor };
        let (sub_agent_id, since) = (self.subagent, self.since);
        loop {
            let limit = u32::try_from((self.limit - all.items.len()).min(PAGE)).ok();
            let slice = PageQuery { limit, cursor: all.next_cursor.take() };
            let page =
                fetch(id, &RecordFilter { page_query: slice, sub_agent_id: sub_agent_id.clone(), since })
                    .await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.items.len() >= self.limit {
                return Ok(all);
            }
        }
    }
}

/// Prints a page, and the option for the next one.
fn show<T: Serialize>(
    ctx: &Context,
    page: &Page<T>,
    noun: &str,
    human: impl FnOnce(&[T]) -> String,
) -> Result<Exit, CliError> {
    ctx.print(page, |page, style, _| match (&page.items[..], &page.next_cursor) {
        ([], None) => format!("There are no {noun} yet.\n"),
        (items, None) => human(items),
        (items, Some(cursor)) => human(items) + &style.dim(&format!("There are more: --cursor {cursor}\n")),
    })?;
    Ok(Exit::Done)
}

/// Show a session's logs. To see them live: pilothouse watch SESSION --logs
#[derive(Debug, Args)]
pub struct Logs {
    #[command(flatten)]
    pub which: Which,
}

impl Logs {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let page = self.which.gather(ctx, async |id, records| ctx.client.logs(id, records).await).await?;
        show(ctx, &page, "logs", |items| {
            items.iter().map(|chunk| output::logs::chunk(chunk, ctx.style)).collect()
        })
    }
}

/// Show a session's conversation, including subagents.
#[derive(Debug, Args)]
pub struct Messages {
    #[command(flatten)]
    pub which: Which,
}

impl Messages {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let page = self.which.gather(ctx, async |id, records| ctx.client.messages(id, records).await).await?;
        let now = now();
        show(ctx, &page, "messages", |items| {
            items.iter().map(|message| output::messages::message(message, ctx.style, now)).collect()
        })
    }
}

/// Show a session's tool calls with their results.
#[derive(Debug, Args)]
pub struct Tools {
    #[command(flatten)]
    pub which: Which,
}

impl Tools {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let page =
            self.which.gather(ctx, async |id, records| ctx.client.tool_calls(id, records).await).await?;
        show(ctx, &page, "tool calls", |items| output::tools::list(items, ctx.style, now()))
    }
}
