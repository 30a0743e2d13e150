//! `pilothouse dead-letters`.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// List messages that could not be processed, and send them again (for operators).
#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// List dead letters with their causes, and redriven ones
    #[command(visible_alias = "ls")]
    List,
    /// Send dead letters again, after the cause is fixed
    Redrive(Redrive),
}

/// Send dead letters again.
#[derive(Debug, Args)]
pub struct Redrive {
    /// The queue as listed: events, reactions, …
    #[arg(value_name = "QUEUE", value_parser = queue)]
    pub queue: String,
}

/// Checks that the name needs no escapes in a path.
fn queue(name: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        return Err("must consist of letters, digits, dashes and dots".to_owned());
    }
    Ok(name.to_owned())
}

impl DeadLetters {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List => ctx.print(&ctx.client.dead_letters().await?, output::dead_letters::list)?,
            Self::Redrive(Redrive { queue }) => {
                ctx.print(&ctx.client.redrive(&queue).await?, output::dead_letters::redriven)?;
            }
        }
        Ok(Exit::Done)
    }
}
