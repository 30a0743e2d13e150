//! `pilothouse tick`.

use clap::{Args, Subcommand};

use super::agent::InProject;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Show the logical time of a project in ticks, or advance it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Tick {
    #[command(flatten)]
    pub of: InProject,
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// What to do with the ticks.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Advance the ticks of a project in manual mode
    Advance(Advance),
}

/// Advance the ticks.
#[derive(Debug, Args)]
pub struct Advance {
    /// The number of ticks
    #[arg(value_name = "TICKS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub ticks: u64,
    #[command(flatten)]
    pub of: InProject,
}

impl Tick {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let ticks = match self.action {
            None => ctx.client.ticks(self.of.id(ctx).await?).await?,
            Some(Action::Advance(Advance { ticks, of })) => {
                ctx.client.advance_ticks(of.id(ctx).await?, ticks).await?
            }
        };
        ctx.print(&ticks, output::trust::ticks)?;
        Ok(Exit::Done)
    }
}
