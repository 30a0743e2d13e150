//! `POST /api/brake`: pulls an emergency brake (S2 "Emergency Brake", decision 72).

use std::collections::BTreeSet;
use std::sync::OnceLock;
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
use pilothouse_domain::brake::{Brake, BrakeBehavior, BrakeInitiator, BrakeScope, NewBrake};
use pilothouse_domain::session::Operation;
use pilothouse_domain::text::BrakeReason;
use pilothouse_domain::{
    AgentSession, AgentSessionId, BrakeId, DomainContext, Project, ProjectAgent, UserId,
};
use pilothouse_store::{Commit, LineScope, LoadedAggregate, LoadedPool};
use schemars::JsonSchema;

use crate::fields::timeout;
use crate::queries::brakes::sessions_of;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("brake-pull", Verb::Post, "/api/brake", |verb| verb.route(pull_brake))
        .owner()
        .summary("Pull the emergency brake")
        .input::<PullBrake>()
        .output::<BrakeView>(&[202]);

/// An emergency brake.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PullBrake {
    /// The sessions to stop: all of them, one, or those of a project, a workstream or an agent.
    pub scope: BrakeScope,
    /// Why the sessions are stopped.
    pub reason: BrakeReason,
    /// `pause` (the default) suspends the agents. `kill` ends their processes. The sessions keep their work in both cases.
    #[deserr(default)]
    pub behavior: Option<BrakeBehavior>,
    /// The number of seconds after which the server releases the brake: 1 to 2592000. Default: a person releases it.
    #[deserr(default, try_from(Option<u64>) = timeout -> FieldError)]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub release_after_seconds: Option<u64>,
}

/// What a brake depends on.
struct BrakeState {
    pool: LoadedPool,
    /// The brake, if an earlier attempt of the request has pulled it.
    committed: Option<LoadedAggregate<Brake>>,
    /// The sessions of the brake.
    sessions: Vec<AgentSession>,
}

/// Responds with 202 and the brake. No session in its scope can start any more, and those that run are being stopped.
async fn pull_brake(
    State(app): State<App>,
    command: CommandContext,
    body: Body<PullBrake>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash).as_stop();
    let id = OnceLock::new();
    let load = async || load(&app, &command, &body.input.scope, id.get().copied()).await;
    let decide = |state: BrakeState, ctx: &mut DomainContext<'_>| {
        let BrakeState { mut pool, committed, sessions } = state;
        if let Some(committed) = committed {
            let view =
                BrakeView::of(&committed.value, &in_brake(&committed.value, &sessions), committed.version);
            return Ok(Decision::Unchanged(accepted(&view)?));
        }
        if let BrakeScope::Session { .. } = body.input.scope {
            sessions.first().ok_or_else(Problem::no_session)?.check(Operation::Hold)?;
        }
        let new = NewBrake {
            id: *id.get_or_init(|| ctx.brake_id()),
            owner_id: command.owner.clone(),
            initiator: BrakeInitiator::Owner,
            scope: body.input.scope.clone(),
            behavior: body.input.behavior.unwrap_or_default(),
            reason: body.input.reason.clone(),
            release_at: body.input.release_after_seconds.map(|after| ctx.now + Duration::from_secs(after)),
            agents: sessions.iter().filter_map(|it| Some((it.id(), it.project()?.clone()))).collect(),
        };
        let (brake, events) = Brake::pull(new, &mut pool.value, ctx.now)?;
        let loaded = LoadedAggregate::new(brake);
        let response = {
            let sessions = in_brake(&loaded.value, &sessions);
            accepted(&BrakeView::of(&loaded.value, &sessions, loaded.next_version()))?
        };
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &loaded, command.cause(), events)?;
        commit.pool(&command.owner, &pool)?;
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
    let members: BTreeSet<AgentSessionId> = match scope {
        BrakeScope::Session { session_id } => BTreeSet::from([*session_id]),
        BrakeScope::All {}
        | BrakeScope::Project { .. }
        | BrakeScope::Workstream { .. }
        | BrakeScope::Agent { .. } => pool.value.leases().keys().copied().collect(),
    };
    let sessions = owned(sessions_of(app, &members).await?, owner);
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

/// The sessions that the brake stops.
fn in_brake(brake: &Brake, sessions: &[AgentSession]) -> Vec<AgentSession> {
    sessions.iter().filter(|session| brake.session_ids().contains(&session.id())).cloned().collect()
}

/// The sessions of `owner`. Another owner's session is not found.
fn owned(sessions: Vec<AgentSession>, owner: &UserId) -> Vec<AgentSession> {
    sessions.into_iter().filter(|session| session.owner_id() == owner).collect()
}

fn accepted(view: &BrakeView) -> Result<CommandResponse, Problem> {
    CommandResponse::new(StatusCode::ACCEPTED, Some(view.version), view)
}
