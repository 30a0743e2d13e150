//! `pilothouse brake`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use pilothouse_api::brakes::BrakeView;
use pilothouse_client::inputs::{PullBrake, ReleaseCondition};
use pilothouse_domain::BrakeId;
use pilothouse_domain::brake::{BrakeBehavior, BrakeScope};
use pilothouse_domain::text::WorkstreamId;
use serde_json::json;

use super::agent::resolve_agent;
use super::lifecycle::Wait;
use super::parse;
use super::project_lookup::resolve_project;
use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::brakes::{detail, details};

/// Stop sessions at once, and let none of them start until the brake is released.
///
/// The agents are suspended and keep their work. `brake status` shows which of them have stopped.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group(ArgGroup::new("stopped").args(["session", "all", "project", "agent"]).required(true).multiple(true)))]
pub struct Brake {
    #[command(subcommand)]
    pub action: Option<Action>,
    /// The session to stop: its id, at least 4 characters of its beginning or end, or @last
    #[arg(conflicts_with_all = ["all", "project", "agent"])]
    pub session: Option<String>,
    /// Stop all of your sessions
    #[arg(long, conflicts_with_all = ["project", "agent"])]
    pub all: bool,
    /// Stop the agents of this project, or the one of them that --agent names: its name or its id
    #[arg(long, value_name = "PROJECT")]
    pub project: Option<String>,
    /// Stop only the agents of this workstream of the project
    #[arg(long, value_name = "ID", requires = "project", value_parser = workstream)]
    pub workstream: Option<WorkstreamId>,
    /// Stop this agent: its id, 4 or more characters of it, or its role
    #[arg(long, value_name = "AGENT", conflicts_with = "workstream")]
    pub agent: Option<String>,
    /// Why you stop them
    #[arg(long, required = true, value_name = "TEXT")]
    pub reason: Option<String>,
    /// End the processes of the agents instead of suspending them
    #[arg(long)]
    pub kill: bool,
    /// Release the brake after this time, like 10m; without it, you release the brake
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub release_after: Option<Duration>,
    /// Open a decision in the inbox whose approval releases the brake
    #[arg(long, conflicts_with = "release_after")]
    pub release_by_decision: bool,
    #[command(flatten)]
    pub wait: Wait,
}

fn workstream(text: &str) -> Result<WorkstreamId, String> {
    WorkstreamId::parse(text).map_err(|wrong| wrong.to_string())
}

/// Show or release brakes.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show the brakes in force, or one brake, with the progress of their sessions
    Status(Status),
    /// Release a brake: what it stopped resumes, and what waited starts
    Release(Release),
}

/// Show brakes.
#[derive(Debug, Args)]
pub struct Status {
    /// The brake: its id, or at least 4 characters of the beginning or end of the id
    pub brake: Option<String>,
}

/// Release a brake.
#[derive(Debug, Args)]
pub struct Release {
    /// The brake: its id, or at least 4 characters of the beginning or end of the id [default: the only one in force]
    pub brake: Option<String>,
    /// Release only this session; may be repeated
    #[arg(long = "session", value_name = "SESSION")]
    pub sessions: Vec<String>,
    /// Release only this agent of a project: its id, 4 or more characters of it, or its role; may be repeated
    #[arg(long = "agent", value_name = "AGENT")]
    pub agents: Vec<String>,
}

impl Brake {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self.action {
            Some(Action::Status(status)) => return status.run(ctx).await,
            Some(Action::Release(release)) => return release.run(ctx).await,
            None => {}
        }
        let scope = self.scope(ctx).await?;
        let brake = PullBrake {
            scope,
            reason: self.reason.unwrap_or_default(),
            behavior: if self.kill { BrakeBehavior::Kill } else { BrakeBehavior::Pause },
            release_after_seconds: self.release_after.map(|after| after.as_secs()),
            release_condition: self.release_by_decision.then_some(ReleaseCondition::Decision),
        };
        let mut brake = ctx.client.pull_brake(&brake).await?;
        if !self.wait.no_wait {
            let most = Duration::from_secs(self.wait.timeout);
            brake = ctx.client.wait_until_stopped(brake.summary.id, most).await?;
        }
        ctx.print(&brake, detail)?;
        if self.wait.no_wait || brake.confirmed_count == brake.summary.session_count {
            return Ok(Exit::Done);
        }
        Err(CliError::Failed(format!(
            "{} after {} s; the brake stays in force: see `pilothouse brake status {}`",
            brake.progress, self.wait.timeout, brake.summary.id
        )))
    }
}

impl Brake {
    async fn scope(&self, ctx: &Context) -> Result<BrakeScope, CliError> {
        if let Some(session) = &self.session {
            return Ok(BrakeScope::Session { session_id: ctx.client.resolve_session(session).await? });
        }
        let project = match &self.project {
            Some(project) => Some(resolve_project(ctx, project).await?),
            None => None,
        };
        if let Some(agent) = &self.agent {
            return Ok(BrakeScope::Agent { agent_id: resolve_agent(ctx, project, agent).await? });
        }
        let Some(project_id) = project else { return Ok(BrakeScope::All {}) };
        Ok(match self.workstream.clone() {
            Some(workstream) => BrakeScope::Workstream { project_id, workstream },
            None => BrakeScope::Project { project_id },
        })
    }
}

impl Status {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        if let Some(given) = &self.brake {
            let brake = ctx.client.brake(ctx.client.resolve_brake(given).await?).await?;
            ctx.print(&brake, detail)?;
            return Ok(Exit::Done);
        }
        let mut brakes = Vec::new();
        for id in in_force(ctx).await? {
            brakes.push(ctx.client.brake(id).await?);
        }
        if ctx.json {
            write_json(&json!({ "items": brakes }))?;
        } else if brakes.is_empty() {
            write("No brake is in force.\n")?;
        } else {
            write(&details(&brakes, ctx.style, now()))?;
        }
        Ok(Exit::Done)
    }
}

/// The brakes in force. The pool names them.
async fn in_force(ctx: &Context) -> Result<Vec<BrakeId>, CliError> {
    Ok(ctx.client.pool().await?.brake_ids)
}

async fn only_one_in_force(ctx: &Context) -> Result<BrakeId, CliError> {
    match in_force(ctx).await?[..] {
        [id] => Ok(id),
        [] => Err(CliError::NotFound("no brake is in force".to_owned())),
        _ => Err(CliError::Usage(
            "several brakes are in force; name one: `pilothouse brake status` lists them".into(),
        )),
    }
}

impl Release {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = match &self.brake {
            Some(given) => ctx.client.resolve_brake(given).await?,
            None => only_one_in_force(ctx).await?,
        };
        let mut sessions = Vec::new();
        for session in &self.sessions {
            sessions.push(ctx.client.resolve_session(session).await?);
        }
        let mut agents = Vec::new();
        for agent in &self.agents {
            agents.push(resolve_agent(ctx, None, agent).await?);
        }
        let sessions = (!sessions.is_empty()).then_some(sessions);
        let agents = (!agents.is_empty()).then_some(agents);
        let brake: BrakeView = ctx.client.release_brake(id, sessions, agents).await?;
        ctx.print(&brake, detail)?;
        Ok(Exit::Done)
    }
}
