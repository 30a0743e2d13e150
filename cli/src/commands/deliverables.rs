//! `pilothouse deliverables`.

use clap::Args;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::deliverables::list;

/// List the deliverables of a session with their statuses.
#[derive(Debug, Args)]
pub struct Deliverables {
    #[command(flatten)]
    pub target: Target,
    /// Show the acceptance criteria, too
    #[arg(long)]
    pub criteria: bool,
}

impl Deliverables {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let shown = ctx.client.deliverables(self.target.id(ctx).await?).await?;
        ctx.print(&shown, |shown, style, _| list(shown, self.criteria, style))?;
        Ok(Exit::Done)
    }
}
