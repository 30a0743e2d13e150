//! `pilothouse watch`.

use clap::Args;

use super::follow::{FollowOptions, Until, follow};
use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Watch a session live. Reconnects automatically.
///
/// Shows the session from its beginning, then new events as they happen. Ends with the session; the exit code is 5 if it
/// ended as Failed or Cancelled. Ctrl-C ends the watch, never the session.
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    pub target: Target,
    /// Continue after this cursor (of an earlier watch, or of `show --json`)
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// When the watch ends
    #[arg(long, value_enum, default_value_t = Until::Terminal)]
    pub until: Until,
    /// Include logs
    #[arg(long)]
    pub logs: bool,
}

impl Watch {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(ctx).await?;
        let session = ctx.client.session(id).await?;
        let options = FollowOptions { after: self.after, until: self.until, logs: self.logs };
        follow(ctx, &session, options).await
    }
}
