//! `pilothouse knowledge`.

use clap::{Args, Subcommand};

use super::agent::{AgentArg, InProject};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Search the knowledge of a project, and show the snapshots of its agents.
#[derive(Debug, Subcommand)]
pub enum Knowledge {
    /// Show the knowledge snapshot of an agent
    Snapshot(Snapshot),
    /// Search artifacts and objectives by words
    Search(Search),
}

/// Show the knowledge snapshot of an agent.
#[derive(Debug, Args)]
pub struct Snapshot {
    #[command(flatten)]
    pub agent: AgentArg,
    /// The maximum number of tokens: 1000 to 32000 [default: 4000]
    #[arg(long, short, value_name = "NUMBER")]
    pub tokens: Option<u64>,
}

/// Search artifacts and objectives.
#[derive(Debug, Args)]
pub struct Search {
    /// The words to search for
    #[arg(value_name = "WORD", required = true)]
    pub words: Vec<String>,
    #[command(flatten)]
    pub of: InProject,
}

impl Knowledge {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::Snapshot(Snapshot { agent, tokens }) => {
                let agent = agent.id(ctx).await?;
                let project = ctx.client.agent(agent).await?.project_id;
                let snapshot = ctx.client.knowledge_snapshot(project, agent, tokens).await?;
                ctx.print(&snapshot, |it, style, _| output::artifacts::snapshot(it, style))?;
            }
            Self::Search(Search { words, of }) => {
                let project = match of.id(ctx).await? {
                    Some(project) => project,
                    None => ctx.client.control_mode(None).await?.project_id,
                };
                let results = ctx.client.search_knowledge(project, &words.join(" ")).await?;
                ctx.print(&results, |it, style, _| output::artifacts::results(it, style))?;
            }
        }
        Ok(Exit::Done)
    }
}
