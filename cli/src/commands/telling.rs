//! `pilothouse tasks`, `notifications`, `replay` and `export`.

use std::path::PathBuf;

use clap::Args;
use pilothouse_functions::api::Page;

use super::target::Target;
use crate::client::inputs::Slice;
use crate::context::{Context, now};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// The most that one answer of the server holds.
const PAGE: u32 = 200;

/// Show the tasks that a session's agent created.
#[derive(Debug, Args)]
pub struct Tasks {
    /// The session.
    #[command(flatten)]
    pub target: Target,
}

impl Tasks {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(cx).await?;
        let mut all = Page { items: Vec::new(), next_cursor: None };
        loop {
            let slice = Slice { limit: Some(PAGE), cursor: all.next_cursor.take() };
            let page = cx.client.tasks(id, &slice).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() {
                break;
            }
        }
        cx.answer(&all, |all, style, _| match &all.items[..] {
            [] => "Its agent has created no tasks.\n".to_owned(),
            tasks => output::telling::tasks(tasks, style, now()),
        })?;
        Ok(Exit::Done)
    }
}

/// Show what you were notified of, newest first.
#[derive(Debug, Args)]
pub struct Notifications {
    /// Only what was not read
    #[arg(long)]
    pub unread: bool,
    /// Mark everything as read
    #[arg(long, conflicts_with = "unread")]
    pub read: bool,
    /// The most of them
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
    /// Go on after an earlier answer: its nextCursor
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

impl Notifications {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        if self.read {
            let mut marked = cx.client.read_notifications().await?;
            while marked.more {
                let more = cx.client.read_notifications().await?;
                // The list of unread ones may lag behind what was marked.
                marked.more = more.more && more.read > 0;
                marked.read += more.read;
            }
            cx.answer(&marked, |marked, _, _| {
                let count = usize::try_from(marked.read).unwrap_or(usize::MAX);
                format!("{} marked as read.\n", output::text::count(count, "notification"))
            })?;
            return Ok(Exit::Done);
        }
        let slice = Slice { limit: Some(self.limit), cursor: self.cursor };
        let page = cx.client.notifications(self.unread, &slice).await?;
        cx.answer(&page, |page, style, _| match (&page.items[..], &page.next_cursor) {
            ([], None) => "There are no notifications.\n".to_owned(),
            (items, None) => output::telling::notifications(items, style, now()),
            (items, Some(cursor)) => {
                output::telling::notifications(items, style, now())
                    + &style.dim(&format!("There are more: --cursor {cursor}\n"))
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Show the raw events of a session as they were recorded, from any sequence.
#[derive(Debug, Args)]
pub struct Replay {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// From this place in the session's journal; with --run, from this sequence of the run
    #[arg(long, value_name = "SEQUENCE")]
    pub from: Option<u64>,
    /// Only those of this run: its number (1, 2, …) or its id
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// The most of them
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<usize>,
}

impl Replay {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(cx).await?;
        let most = self.limit.unwrap_or(usize::MAX);
        let mut all = Page { items: Vec::new(), next_cursor: None };
        loop {
            let slice = Slice { limit: Some(PAGE), cursor: all.next_cursor.take() };
            let page = cx.client.raw_events(id, self.from, self.run.as_deref(), &slice).await?;
            all.items.extend(page.items);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_none() || all.items.len() >= most {
                break;
            }
        }
        all.items.truncate(most);
        cx.answer(&all, |all, style, _| match &all.items[..] {
            [] => "There are no raw events from there on.\n".to_owned(),
            events => events.iter().map(|event| output::telling::raw_event(event, style)).collect(),
        })?;
        Ok(Exit::Done)
    }
}

/// Write a session as one JSON document: conversation, tool calls, activity, raw events and the rest.
#[derive(Debug, Args)]
pub struct Export {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// Into this file, instead of to the terminal
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl Export {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(cx).await?;
        let document = cx.client.export(id).await?;
        let text = format!("{document:#}\n");
        let Some(path) = self.out else {
            cx.answer(&document, |_, _, _| text)?;
            return Ok(Exit::Done);
        };
        let wrong =
            |error: std::io::Error| CliError::Usage(format!("cannot write {}: {error}", path.display()));
        std::fs::write(&path, &text).map_err(wrong)?;
        let written = serde_json::json!({ "file": path, "bytes": text.len() });
        cx.answer(&written, |_, _, _| format!("{} bytes in {}\n", text.len(), path.display()))?;
        Ok(Exit::Done)
    }
}
