//! `pilothouse dead-letters`.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Messages that nobody could deal with (for operators).
#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// Show which there are, why, and what was sent again
    List,
    /// Send them again, when what was in their way is gone
    Redrive(Redrive),
}

/// Send dead letters again.
#[derive(Debug, Args)]
pub struct Redrive {
    /// The queue, as the list names it: events, reactions, …
    #[arg(value_name = "QUEUE", value_parser = queue)]
    pub queue: String,
}

/// A name that needs no escapes in a path.
fn queue(name: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        return Err("a queue is letters, digits, dashes and dots".to_owned());
    }
    Ok(name.to_owned())
}

impl DeadLetters {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List => cx.answer(&cx.client.dead_letters().await?, output::dead_letters::list)?,
            Self::Redrive(Redrive { queue }) => {
                cx.answer(&cx.client.redrive(&queue).await?, output::dead_letters::redriven)?;
            }
        }
        Ok(Exit::Done)
    }
}
