//! `pilothouse watch`.

use clap::Args;

use super::follow::{FollowOptions, Until, follow};
use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Watch a session live; goes on by itself after lost connections.
///
/// Shows everything from the session's beginning, then what happens. Ends when the session does; exits with 5 if it
/// ended as Failed or Cancelled. Ctrl-C ends the watch, never the session.
#[derive(Debug, Args)]
pub struct Watch {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// Go on after this cursor (of a watch that ended, or of `show --json`)
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// End when the session is over; when it rests; or when it rests or waits for you
    #[arg(long, value_enum, default_value_t = Until::Terminal)]
    pub until: Until,
    /// Show its logs, too
    #[arg(long)]
    pub logs: bool,
}

impl Watch {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(cx).await?;
        let session = cx.client.session(id).await?;
        let options = FollowOptions { after: self.after, until: self.until, logs: self.logs };
        follow(cx, &session, options).await
    }
}
