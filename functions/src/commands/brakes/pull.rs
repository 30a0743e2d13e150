//! `POST /api/brake`: pulls an emergency brake (S2 "Emergency Brake", decision 72).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::brakes::BrakeView;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::brake::{
    Brake, BrakeBehavior, BrakeInitiator, BrakeScope, NewBrake, ReleaseCondition,
};
use pilothouse_domain::decision::FreeDecision;
use pilothouse_domain::session::Operation;
use pilothouse_domain::text::{BrakeReason, WorkstreamId};
use pilothouse_domain::{
    AgentSession, AgentSessionId, BrakeId, DomainContext, Project, ProjectAgent, ProjectAgentId, ProjectId,
    Timestamp, UserId,
};
use pilothouse_store::{Commit, LineScope, Loaded, LoadedAggregate, LoadedPool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::fields::timeout;
use crate::loading::load_sessions;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("brake-pull", Verb::Post, "/api/brake", |verb| verb.route(pull_brake))
        .owner()
        .summary("Pull the emergency brake")
        .input::<PullBrake>()
        .output::<BrakeView>(&[202]);

/// Which sessions a brake stops. An owner with one project may leave `projectId` out.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ScopeInput {
    /// All sessions of the owner.
    All {},
    /// One session, and the session that continues its work.
    Session { session_id: AgentSessionId },
    /// All agents of a project.
    Project {
        #[serde(default)]
        project_id: Option<ProjectId>,
    },
    /// The agents of a workstream.
    Workstream {
        #[serde(default)]
        project_id: Option<ProjectId>,
        workstream: WorkstreamId,
    },
    /// One agent of a project, in all its sessions.
    Agent { agent_id: ProjectAgentId },
}

impl ScopeInput {
    fn read(value: Value) -> Result<Self, FieldError> {
        serde_json::from_value(value).map_err(|error| FieldError(error.to_string()))
    }

    async fn resolved(self, app: &App, command: &CommandContext) -> Result<BrakeScope, Problem> {
        let chosen = async |id: Option<ProjectId>| match id {
            Some(id) => Ok(id),
            None => app.chosen_project(&command.owner, None).await.map(|project| project.value.id()),
        };
        Ok(match self {
            Self::All {} => BrakeScope::All {},
            Self::Session { session_id } => BrakeScope::Session { session_id },
            Self::Project { project_id } => BrakeScope::Project { project_id: chosen(project_id).await? },
            Self::Workstream { project_id, workstream } => {
                BrakeScope::Workstream { project_id: chosen(project_id).await?, workstream }
            }
            Self::Agent { agent_id } => BrakeScope::Agent { agent_id },
        })
    }
}

/// An emergency brake.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PullBrake {
    /// The sessions to stop: all of them, one, or those of a project, a workstream or an agent.
    #[deserr(try_from(Value) = ScopeInput::read -> FieldError)]
    pub scope: ScopeInput,
    /// Why the sessions are stopped.
    pub reason: BrakeReason,
    /// `pause` (the default) suspends the agents. `kill` ends their processes. The sessions keep their work in both cases.
    #[deserr(default)]
    pub behavior: Option<BrakeBehavior>,
    /// The number of seconds after which the server releases the brake: 1 to 2592000. Default: a person releases it.
    #[deserr(default, try_from(Option<u64>) = timeout -> FieldError)]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub release_after_seconds: Option<u64>,
    /// What releases the brake, in addition to a person. `timer` is the same as `releaseAfterSeconds`, and only one of them can be
    /// given. `decision` opens a decision in the inbox whose approval releases the brake. Default: `manual`.
    #[deserr(default)]
    pub release_condition: Option<ReleaseConditionInput>,
}

/// What releases a brake (S2 `BrakeReleaseCondition`).
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, tag = "type", rename_all = camelCase, deny_unknown_fields)]
#[serde(tag = "type")]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub enum ReleaseConditionInput {
    /// Nothing else.
    Manual,
    /// The server, after a time.
    #[deserr(rename_all = camelCase)]
    #[schemars(rename_all = "camelCase")]
    Timer {
        /// The number of milliseconds: 1 to 2592000000.
        #[deserr(try_from(u64) = milliseconds -> FieldError)]
        #[schemars(range(min = 1, max = 2_592_000_000_u64))]
        release_after_ms: u64,
    },
    /// The approval of a decision in the inbox, which the brake opens.
    Decision,
}

/// Most milliseconds of a timer: 30 days.
const LONGEST_TIMER: u64 = 2_592_000_000;

fn milliseconds(value: u64) -> Result<u64, FieldError> {
    let fits = (1..=LONGEST_TIMER).contains(&value);
    if fits { Ok(value) } else { Err(FieldError(format!("must be 1 to {LONGEST_TIMER} milliseconds"))) }
}

impl PullBrake {
    /// Refuses two timers, or a timer beside another condition.
    fn check(&self) -> Result<(), Problem> {
        match (self.release_after_seconds, self.release_condition) {
            (Some(_), Some(_)) => {
                Err(Problem::invalid("releaseAfterSeconds", "must not be given beside `releaseCondition`"))
            }
            _ => Ok(()),
        }
    }

    fn condition(&self, id: BrakeId, now: Timestamp) -> ReleaseCondition {
        let timer = |after| ReleaseCondition::Timer { release_at: now + after };
        match (self.release_after_seconds, self.release_condition) {
            (Some(seconds), _) => timer(Duration::from_secs(seconds)),
            (None, Some(ReleaseConditionInput::Timer { release_after_ms })) => {
                timer(Duration::from_millis(release_after_ms))
            }
            (None, Some(ReleaseConditionInput::Decision)) => ReleaseCondition::decision(id),
            (None, None | Some(ReleaseConditionInput::Manual)) => ReleaseCondition::Manual {},
        }
    }
}

/// What a brake depends on.
struct BrakeState {
    pool: LoadedPool,
    /// The brake, if an earlier attempt of the request has pulled it.
    committed: Option<LoadedAggregate<Brake>>,
    /// The session in scope, or those whose leases do not name their agents. The brake must not wait for all sessions to be read.
    sessions: Vec<Arc<AgentSession>>,
}

/// Responds with 202 and the brake. No session in its scope can start any more, and those that run are being stopped. The response names
/// only sessions that were read for the decision: the brake does not wait for the others, and a repeated request gets the same response.
async fn pull_brake(
    State(app): State<App>,
    command: CommandContext,
    body: Body<PullBrake>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash).as_stop();
    body.input.check()?;
    let scope = body.input.scope.clone().resolved(&app, &command).await?;
    let id = OnceLock::new();
    let load = async || load(&app, &command, &scope, id.get().copied()).await;
    let decide = |state: BrakeState, ctx: &mut DomainContext<'_>| {
        let BrakeState { mut pool, committed, sessions } = state;
        if let Some(committed) = committed {
            return Ok(Decision::Unchanged(accepted(&committed.value, &sessions, committed.version)?));
        }
        if let BrakeScope::Session { .. } = scope {
            sessions.first().ok_or_else(Problem::no_session)?.check(Operation::Hold)?;
        }
        let id = *id.get_or_init(|| ctx.brake_id());
        let new = NewBrake {
            id,
            owner_id: command.owner.clone(),
            initiator: BrakeInitiator::Owner,
            scope: scope.clone(),
            behavior: body.input.behavior.unwrap_or_default(),
            reason: body.input.reason.clone(),
            release: body.input.condition(id, ctx.now),
            agents: sessions.iter().filter_map(|it| Some((it.id(), it.project()?.clone()))).collect(),
        };
        let (brake, events) = Brake::pull(new, &mut pool.value, ctx.now)?;
        let loaded = LoadedAggregate::new(brake);
        let response = accepted(&loaded.value, &sessions, loaded.next_version())?;
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &loaded, command.cause(), events)?;
        commit.pool(&command.owner, &pool)?;
        if loaded.value.release_decision_id().is_some() {
            commit.free_decision(&Loaded::new(FreeDecision::brake_release(&loaded.value)))?;
        }
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(&command, load, decide).await
}

async fn load(
    app: &App,
    command: &CommandContext,
    scope: &BrakeScope,
    id: Option<BrakeId>,
) -> Result<BrakeState, Problem> {
    let owner = &command.owner;
    let committed = match id {
        Some(id) => app.store.aggregate::<Brake>(owner, id).await?,
        None => None,
    };
    ensure_scope(app, command, scope).await?;
    let pool = app.store.pool_with(owner, LineScope::Nothing).await?;
    let unknown = match scope {
        BrakeScope::Session { session_id } => BTreeSet::from([*session_id]),
        BrakeScope::All {} => BTreeSet::new(),
        BrakeScope::Project { .. } | BrakeScope::Workstream { .. } | BrakeScope::Agent { .. } => {
            pool.value.unknown_holders()
        }
    };
    let sessions = owned(load_sessions(app, &unknown).await?, owner);
    Ok(BrakeState { pool, committed, sessions })
}

/// Refuses a project, workstream or agent that the owner does not have.
async fn ensure_scope(app: &App, command: &CommandContext, scope: &BrakeScope) -> Result<(), Problem> {
    match scope {
        BrakeScope::All {} | BrakeScope::Session { .. } => {}
        BrakeScope::Project { project_id } => {
            app.load_aggregate::<Project>(command, *project_id).await?;
        }
        BrakeScope::Workstream { project_id, workstream } => {
            let project = app.load_aggregate::<Project>(command, *project_id).await?.value;
            if !project.has_workstream(workstream) {
                return Err(Problem::invalid("scope.workstream", "the project has no such workstream"));
            }
        }
        BrakeScope::Agent { agent_id } => {
            app.load_aggregate::<ProjectAgent>(command, *agent_id).await?;
        }
    }
    Ok(())
}

/// The sessions of `owner`. Another owner's session is not found.
fn owned(sessions: Vec<Arc<AgentSession>>, owner: &UserId) -> Vec<Arc<AgentSession>> {
    sessions.into_iter().filter(|session| session.owner_id() == owner).collect()
}

/// `sessions`: those that have been read.
fn accepted(brake: &Brake, sessions: &[Arc<AgentSession>], version: u64) -> Result<CommandResponse, Problem> {
    let stopped = |session: &&Arc<AgentSession>| brake.session_ids().contains(&session.id());
    let sessions: Vec<_> = sessions.iter().filter(stopped).cloned().collect();
    CommandResponse::new(StatusCode::ACCEPTED, Some(version), &BrakeView::of(brake, &sessions, version))
}
