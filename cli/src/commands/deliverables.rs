//! `pilothouse deliverables`.

use clap::Args;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::deliverables::list;

/// Show what the agent is to deliver, and where each stands.
#[derive(Debug, Args)]
pub struct Deliverables {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// With what must hold for each
    #[arg(long)]
    pub criteria: bool,
}

impl Deliverables {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let shown = cx.client.deliverables(self.target.id(cx).await?).await?;
        cx.answer(&shown, |shown, style, _| list(shown, self.criteria, style))?;
        Ok(Exit::Done)
    }
}
