//! `pilothouse pool`.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// How many sessions may run at once.
#[derive(Debug, Subcommand)]
pub enum Pool {
    /// Show who has a slot and who waits
    Show,
    /// Change the number of slots; lowering it stops nobody
    Set(Set),
}

/// Change the number of slots.
#[derive(Debug, Args)]
pub struct Set {
    /// The slots
    #[arg(value_name = "SLOTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub slots: u32,
}

impl Pool {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let pool = match self {
            Self::Show => cx.client.pool().await?,
            Self::Set(Set { slots }) => cx.client.set_pool(slots).await?,
        };
        cx.answer(&pool, output::pool::show)?;
        Ok(Exit::Done)
    }
}
