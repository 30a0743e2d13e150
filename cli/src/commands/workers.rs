//! `pilothouse workers`.

use clap::{Args, Subcommand};
use pilothouse_wire::worker::WorkerId;

use crate::context::{Context, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// List and remove the machines that run your sessions.
#[derive(Debug, Subcommand)]
pub enum Workers {
    /// List your workers
    #[command(visible_alias = "ls")]
    List,
    /// Remove a worker, or declare its machine lost
    Remove(Remove),
}

/// Remove a worker.
#[derive(Debug, Args)]
pub struct Remove {
    /// The name of the worker
    #[arg(value_name = "WORKER")]
    pub id: WorkerId,
    /// The machine is lost: end its runs without waiting for their processes
    #[arg(long)]
    pub lost: bool,
}

impl Workers {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List => {
                let workers = ctx.client.workers().await?;
                ctx.print(&workers, |page, style, now| output::workers::list(&page.items, style, now))?;
            }
            Self::Remove(Remove { id, lost }) => {
                ctx.client.remove_worker(&id, lost).await?;
                if ctx.json {
                    write_json(&serde_json::json!({ "worker": id, "lost": lost }))?;
                } else {
                    let runs = if lost { " Its runs have ended." } else { "" };
                    write(&format!("Worker {id} is removed.{runs}\n"))?;
                }
            }
        }
        Ok(Exit::Done)
    }
}
