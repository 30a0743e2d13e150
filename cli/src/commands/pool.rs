//! `pilothouse pool`.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Show or change the limit of concurrent sessions.
#[derive(Debug, Subcommand)]
pub enum Pool {
    /// Show the sessions that have a slot or wait for one
    Show,
    /// Change the number of slots; running sessions keep theirs
    Set(Set),
}

/// Change the number of slots.
#[derive(Debug, Args)]
pub struct Set {
    /// The number of slots
    #[arg(value_name = "SLOTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: u32,
}

impl Pool {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let pool = match self {
            Self::Show => ctx.client.pool().await?,
            Self::Set(Set { slots }) => ctx.client.configure_pool(slots).await?,
        };
        ctx.print(&pool, output::pool::show)?;
        Ok(Exit::Done)
    }
}
