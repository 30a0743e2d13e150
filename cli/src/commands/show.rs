//! `pilothouse show`.

use clap::Args;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::detail;

/// Show a session: status, spend, context window, tasks, open requests.
#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    pub target: Target,
}

impl Show {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = self.target.id(ctx).await?;
        ctx.print(&ctx.client.session(id).await?, detail)?;
        Ok(Exit::Done)
    }
}
