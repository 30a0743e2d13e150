//! `pilothouse trust`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pilothouse_client::inputs::PageQuery;
use serde_json::json;

use super::agent::AgentArg;
use super::files::read_json;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Show how far people trust the agents of a project.
///
/// Name an agent by its id, 4 or more characters of it, or its role.
#[derive(Debug, Subcommand)]
pub enum Trust {
    /// Show the score of an agent, its approval rates, and the latest changes
    Show(Show),
    /// Replay the outcomes of an agent under another configuration; nothing changes
    Simulate(Simulate),
}

/// Show the trust of an agent.
#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    pub agent: AgentArg,
    /// The number of changes
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub limit: u32,
}

/// Replay the outcomes of an agent.
#[derive(Debug, Args)]
#[group(id = "configuration", required = true, multiple = false, args = ["preset", "file"])]
pub struct Simulate {
    #[command(flatten)]
    pub agent: AgentArg,
    /// The preset
    #[arg(long, value_name = "NAME", value_parser = ["conservative", "balanced", "permissive"])]
    pub preset: Option<String>,
    /// A JSON file with a configuration, as projects have it in `trust`
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl Trust {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::Show(Show { agent, limit }) => {
                let page = PageQuery { limit: Some(limit), cursor: None };
                let trust = ctx.client.trust(agent.id(ctx).await?, &page).await?;
                ctx.print(&trust, output::trust::show)?;
            }
            Self::Simulate(Simulate { agent, preset, file }) => {
                let configuration = match (file, preset) {
                    (Some(file), _) => read_json(&file)?,
                    (None, preset) => json!({ "name": preset }),
                };
                let simulated = ctx.client.simulate_trust(agent.id(ctx).await?, &configuration).await?;
                ctx.print(&simulated, output::trust::simulation)?;
            }
        }
        Ok(Exit::Done)
    }
}
