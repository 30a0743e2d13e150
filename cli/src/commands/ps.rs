//! `pilothouse ps`.

use clap::Args;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_functions::api::sessions::SessionSummary;
use serde_json::json;

use super::parse;
use crate::client::inputs::Slice;
use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::sessions::list;

/// The most that one answer of the server holds.
const PAGE: u32 = 100;

/// List sessions, latest first.
#[derive(Debug, Args)]
pub struct Ps {
    /// Those that are Completed, Cancelled or out of context, too
    #[arg(long, short)]
    pub all: bool,
    /// Only those of this status, for example Running or Idle
    #[arg(long, value_parser = parse::status, value_name = "STATUS")]
    pub status: Option<AgentSessionStatus>,
    /// The most sessions
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub limit: usize,
}

impl Ps {
    /// Whether a session is over for good. A failed one may be tried again.
    fn hides(&self, session: &SessionSummary) -> bool {
        let over = session.status.is_terminal() && session.status != AgentSessionStatus::Failed;
        over && !self.all && self.status.is_none()
    }

    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let mut slice = Slice { limit: Some(PAGE), cursor: None };
        let mut sessions = Vec::new();
        while sessions.len() < self.limit {
            let page = cx.client.sessions(self.status, &slice).await?;
            sessions.extend(page.items.into_iter().filter(|session| !self.hides(session)));
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
                break;
            }
        }
        let more = slice.cursor.is_some() || sessions.len() > self.limit;
        sessions.truncate(self.limit);
        if cx.json {
            write_json(&json!({ "items": sessions }))?;
        } else if sessions.is_empty() {
            let all = if self.all { "" } else { " (--all lists those that are over, too)" };
            write(&format!("There is no session{all}. Start one with `pilothouse run \"what to do\"`.\n"))?;
        } else {
            let hint = cx.style.dim("There are more; see --limit.\n");
            write(&(list(&sessions, cx.style, now()) + if more { &hint } else { "" }))?;
        }
        Ok(Exit::Done)
    }
}
