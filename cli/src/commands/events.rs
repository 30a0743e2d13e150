//! `pilothouse tasks`, `notifications`, `replay` and `export`.

use std::path::PathBuf;

use clap::Args;
use pilothouse_api::Page;
use pilothouse_client::inputs::PageQuery;

use super::target::Target;
use crate::context::{Context, now};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// The maximum page size of the server.
const PAGE: u32 = 200;

/// List the tasks that a session's agent created.
#[derive(Debug, Args)]
pub struct Tasks {
    #[command(flatten)]
    pub target: Target,
}

impl Tasks {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(ctx).await?;
        let mut all = Page { items: Vec::new(), next_cursor: None };
        loop {
            let slice = PageQuery { limit: Some(PAGE), cursor: all.next_cursor.take() };
            let page = ctx.client.tasks(id, &slice).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() {
                break;
            }
        }
        ctx.print(&all, |all, style, _| match &all.items[..] {
            [] => "The agent has created no tasks.\n".to_owned(),
            tasks => output::events::tasks(tasks, style, now()),
        })?;
        Ok(Exit::Done)
    }
}

/// List your notifications, newest first.
#[derive(Debug, Args)]
pub struct Notifications {
    /// Only unread notifications
    #[arg(long)]
    pub unread: bool,
    /// Mark all notifications as read
    #[arg(long, conflicts_with = "unread")]
    pub read: bool,
    /// The maximum number of notifications
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
    /// Continue after an earlier page: its nextCursor
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

impl Notifications {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        if self.read {
            let mut marked = ctx.client.read_notifications().await?;
            while marked.more {
                let more = ctx.client.read_notifications().await?;
                // The list of unread notifications may lag behind the marks.
                marked.more = more.more && more.read > 0;
                marked.read += more.read;
            }
            ctx.print(&marked, |marked, _, _| {
                let count = usize::try_from(marked.read).unwrap_or(usize::MAX);
                format!("{} marked as read.\n", output::text::count(count, "notification"))
            })?;
            return Ok(Exit::Done);
        }
        let slice = PageQuery { limit: Some(self.limit), cursor: self.cursor };
        let page = ctx.client.notifications(self.unread, &slice).await?;
        ctx.print(&page, |page, style, _| match (&page.items[..], &page.next_cursor) {
            ([], None) => "There are no notifications.\n".to_owned(),
            (items, None) => output::events::notifications(items, style, now()),
            (items, Some(cursor)) => {
                output::events::notifications(items, style, now())
                    + &style.dim(&format!("There are more: --cursor {cursor}\n"))
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Show the recorded raw events of a session, from any sequence.
#[derive(Debug, Args)]
pub struct Replay {
    #[command(flatten)]
    pub target: Target,
    /// The first sequence: of the session's journal, or with --run of the run
    #[arg(long, value_name = "SEQUENCE")]
    pub from: Option<u64>,
    /// Only events of this run: its number (1, 2, …) or its id
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// The maximum number of events
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<usize>,
}

impl Replay {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(ctx).await?;
        let most = self.limit.unwrap_or(usize::MAX);
        let mut all = Page { items: Vec::new(), next_cursor: None };
        loop {
            let slice = PageQuery { limit: Some(PAGE), cursor: all.next_cursor.take() };
            let page = ctx.client.raw_events(id, self.from, self.run.as_deref(), &slice).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.items.len() >= most {
                break;
            }
        }
        all.items.truncate(most);
        ctx.print(&all, |all, style, _| match &all.items[..] {
            [] => "There are no raw events after this point.\n".to_owned(),
            events => events.iter().map(|event| output::events::raw_event(event, style)).collect(),
        })?;
        Ok(Exit::Done)
    }
}

/// Export a session as one JSON document: conversation, tool calls, activity, raw events and more.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    pub target: Target,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl Export {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(ctx).await?;
        let document = ctx.client.export(id).await?;
        let text = format!("{document:#}\n");
        let Some(path) = self.out else {
            ctx.print(&document, |_, _, _| text)?;
            return Ok(Exit::Done);
        };
        let wrong =
            |error: std::io::Error| CliError::Usage(format!("cannot write {}: {error}", path.display()));
        std::fs::write(&path, &text).map_err(wrong)?;
        let written = serde_json::json!({ "file": path, "bytes": text.len() });
        ctx.print(&written, |_, _, _| format!("{} bytes in {}\n", text.len(), path.display()))?;
        Ok(Exit::Done)
    }
}
