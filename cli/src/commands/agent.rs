//! `pilothouse agent`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use pilothouse_api::projects::AgentView;
use pilothouse_domain::{ProjectAgentId, ProjectId, Usd};
use serde_json::{Value, json};

use super::adapter::AdapterChoice;
use super::files::{absolute, read_json};
use super::project_lookup::{all_agents, resolve_project};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// The cap of an agent's spend in dollars, where neither an option nor a template says otherwise.
const DEFAULT_BUDGET_USD: &str = "5";
/// Fewest characters of a partial id.
const MIN_PREFIX: usize = 4;

/// Manage the agents of a project.
///
/// Name an agent by its id, 4 or more characters of it, or its role.
#[derive(Debug, Subcommand)]
pub enum Agent {
    /// List the agents of a project
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show an agent with its brief
    Show(AgentArg),
    /// Show the process of an agent, when it was last heard, and what it waits for
    Health(AgentArg),
    /// Create an agent and start its session
    Spawn(Spawn),
    /// Change the brief of an agent
    Brief(Brief),
    /// Pause an agent
    Pause(AgentArg),
    /// Resume a paused agent
    Resume(AgentArg),
    /// End an agent
    Kill(Kill),
    /// Show where an agent can continue from
    Checkpoints(AgentArg),
}

/// The project of an agent.
#[derive(Debug, Args)]
pub struct InProject {
    /// The project: its name or its id [default: your only project]
    #[arg(long, short, value_name = "PROJECT")]
    pub project: Option<String>,
}

/// List agents.
#[derive(Debug, Args)]
pub struct Ls {
    #[command(flatten)]
    pub of: InProject,
}

/// One agent.
#[derive(Debug, Args)]
pub struct AgentArg {
    /// The agent: its id, 4 or more characters of it, or its role
    #[arg(value_name = "AGENT")]
    pub agent: String,
    #[command(flatten)]
    pub of: InProject,
}

/// Create an agent.
#[derive(Debug, Args)]
pub struct Spawn {
    /// What the agent should do
    #[arg(value_name = "OBJECTIVE")]
    pub objective: String,
    /// A JSON file with the brief: at least `role` and `workstream`
    #[arg(long, short, value_name = "FILE")]
    pub brief: PathBuf,
    #[command(flatten)]
    pub of: InProject,
    /// The working directory of the agent [default: the current folder]
    #[arg(long, short, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// The cap of its spend in dollars [default: 5, or the template's cap]
    #[arg(long, value_name = "AMOUNT")]
    pub budget: Option<Usd>,
    /// Run it although its cost is unknown, so that the cap cannot be enforced
    #[arg(long)]
    pub allow_unmetered: bool,
    /// The template to start from: its name, its id, or a part of either
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Option<String>,
    /// The name of the session
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub adapter: AdapterChoice,
    /// Play this script instead of a real agent
    #[arg(long, value_name = "FILE", conflicts_with = "adapter")]
    pub script: Option<PathBuf>,
}

/// Change a brief.
#[derive(Debug, Args)]
pub struct Brief {
    #[command(flatten)]
    pub agent: AgentArg,
    /// A JSON file with the fields to change; `null` clears a field
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
}

/// End an agent.
#[derive(Debug, Args)]
pub struct Kill {
    #[command(flatten)]
    pub agent: AgentArg,
    /// End its process at once
    #[arg(long, conflicts_with = "grace")]
    pub force: bool,
    /// The seconds that it may take to stop, at most 50 [default: a minute after it received the request]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=50))]
    pub grace: Option<u64>,
}

impl Agent {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let view = match self {
            Self::Ls(Ls { of }) => {
                let agents = all_agents(ctx, of.id(ctx).await?).await?;
                let response = json!({ "items": agents });
                ctx.print(&response, |_, style, now| output::projects::agents(&agents, style, now))?;
                return Ok(Exit::Done);
            }
            Self::Show(agent) => {
                let view = ctx.client.agent(agent.id(ctx).await?).await?;
                ctx.print(&view, output::projects::agent)?;
                return Ok(Exit::Done);
            }
            Self::Health(agent) => {
                let health = ctx.client.agent_health(agent.id(ctx).await?).await?;
                ctx.print(&health, output::projects::health)?;
                return Ok(Exit::Done);
            }
            Self::Spawn(spawn) => return spawn.run(ctx).await,
            Self::Brief(Brief { agent, file }) => {
                ctx.client.update_brief(agent.id(ctx).await?, &read_json(&file)?).await?
            }
            Self::Pause(agent) => ctx.client.pause_agent(agent.id(ctx).await?).await?,
            Self::Resume(agent) => ctx.client.resume_agent(agent.id(ctx).await?).await?,
            Self::Kill(Kill { agent, force, grace }) => {
                let limit = grace.map(Duration::from_secs);
                ctx.client.kill_agent(agent.id(ctx).await?, !force, limit).await?
            }
            Self::Checkpoints(agent) => {
                let checkpoints = ctx.client.checkpoints(agent.id(ctx).await?).await?;
                ctx.print(&checkpoints, output::projects::checkpoints)?;
                return Ok(Exit::Done);
            }
        };
        ctx.print(&view, output::projects::agent_line)?;
        Ok(Exit::Done)
    }
}

impl InProject {
    pub(super) async fn id(&self, ctx: &Context) -> Result<Option<ProjectId>, CliError> {
        match &self.project {
            Some(given) => resolve_project(ctx, given).await.map(Some),
            None => Ok(None),
        }
    }
}

impl AgentArg {
    pub(super) async fn id(&self, ctx: &Context) -> Result<ProjectAgentId, CliError> {
        resolve_agent(ctx, self.of.id(ctx).await?, &self.agent).await
    }
}

/// The id of an agent of a project, given its id, a part of it, or its role. `None` means the owner's only project.
pub(super) async fn resolve_agent(
    ctx: &Context,
    project: Option<ProjectId>,
    given: &str,
) -> Result<ProjectAgentId, CliError> {
    if let Ok(id) = given.parse() {
        return Ok(id);
    }
    let agents = all_agents(ctx, project).await?;
    let is_named = |agent: &&AgentView| {
        let id = agent.id.to_string();
        let part = given.to_ascii_lowercase();
        agent.brief.role.as_str().eq_ignore_ascii_case(given)
            || part.len() >= MIN_PREFIX && (id.starts_with(&part) || id.ends_with(&part))
    };
    match &agents.iter().filter(is_named).collect::<Vec<_>>()[..] {
        [agent] => Ok(agent.id),
        [] => Err(CliError::NotFound(format!(
            "the project has no agent `{given}`; `pilothouse agent ls` lists them"
        ))),
        several => Err(CliError::NotFound(format!(
            "{} agents of the project could be meant by `{given}`; give the id",
            several.len()
        ))),
    }
}

impl Spawn {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let mut brief = read_json(&self.brief)?;
        if let Some(adapter) = &self.adapter.adapter {
            brief["adapter"] = json!(adapter);
        }
        if let Some(script) = &self.script {
            brief["adapter"] = json!("script");
            brief["providerConfig"] = json!({ "script": read_json(script)? });
        }
        let template = match &self.template {
            Some(given) => Some(ctx.client.resolve_template(given).await?),
            None => None,
        };
        let dir = absolute(self.dir.as_deref().unwrap_or_else(|| Path::new(".")))?;
        let mut body = json!({
            "brief": brief,
            "objective": self.objective,
            "workingDirectory": dir.to_string_lossy(),
        });
        let default_budget = template.is_none().then(|| json!(DEFAULT_BUDGET_USD));
        let options = [
            ("projectId", self.of.id(ctx).await?.map(|id| json!(id))),
            ("templateId", template.map(|id| json!(id))),
            ("budgetCapUsd", self.budget.map(|cap| json!(cap)).or(default_budget)),
            ("allowUnmetered", self.allow_unmetered.then_some(Value::Bool(true))),
            ("name", self.name.map(Value::from)),
        ];
        for (field, value) in options {
            if let Some(value) = value {
                body[field] = value;
            }
        }
        let spawned = ctx.client.spawn_agent(&body).await?;
        ctx.print(&spawned, |spawned, style, now| output::projects::agent_line(&spawned.agent, style, now))?;
        Ok(Exit::Done)
    }
}
