//! `pilothouse show`.

use clap::Args;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::detail;

/// Show a session in full: status, money, context, tasks, and what waits for you.
#[derive(Debug, Args)]
pub struct Show {
    /// The session.
    #[command(flatten)]
    pub target: Target,
}

impl Show {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(cx).await?;
        cx.answer(&cx.client.session(id).await?, detail)?;
        Ok(Exit::Done)
    }
}
