//! `POST /api/brakes/{id}/release` and S2's `POST /api/brake/release`: release an emergency brake, or some of its sessions (S2
//! "Emergency Brake", decision 72).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::brakes::BrakeView;
use pilothouse_api::input::{FieldError, Violations, distinct_ids};
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::brake::{Brake, ReleasedBy};
use pilothouse_domain::decision::{CancelReason, FreeDecision};
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{AgentSession, AgentSessionId, BrakeId, DomainContext, ProjectAgent, ProjectAgentId};
use pilothouse_store::{Commit, LineScope, Loaded, LoadedAggregate, LoadedPool};
use schemars::JsonSchema;

use crate::loading::load_sessions;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("brakes-release", Verb::Post, "/api/brakes/{id}/release", |verb| {
        verb.route(release_brake)
    })
    .owner()
    .summary("Release an emergency brake")
    .input::<ReleaseBrake>()
    .output::<BrakeView>(&[200]);

pub const ONLY: HttpFunction = HttpFunction::new("brake-release", Verb::Post, "/api/brake/release", |verb| {
    verb.route(release_only_brake)
})
.owner()
.summary("Release an emergency brake, which need not be named if it is the only one")
.input::<ReleaseOnlyBrake>()
.output::<BrakeView>(&[200]);

/// What to release. By default all, which ends the brake.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseBrake {
    /// The sessions to release: 1 to 100.
    #[deserr(default, try_from(Option<Vec<String>>) = listed -> FieldError)]
    #[schemars(length(min = 1, max = 100))]
    pub session_ids: Option<BTreeSet<AgentSessionId>>,
    /// The agents of projects whose current sessions to release: 1 to 100.
    #[deserr(default, try_from(Option<Vec<String>>) = listed -> FieldError)]
    #[schemars(length(min = 1, max = 100))]
    pub agent_ids: Option<BTreeSet<ProjectAgentId>>,
}

/// What to release of which brake.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseOnlyBrake {
    /// The brake. Default: the only one in force.
    #[deserr(default, try_from(Option<String>) = named_brake -> FieldError)]
    pub brake_id: Option<BrakeId>,
    /// The sessions to release: 1 to 100.
    #[deserr(default, try_from(Option<Vec<String>>) = listed -> FieldError)]
    #[schemars(length(min = 1, max = 100))]
    pub session_ids: Option<BTreeSet<AgentSessionId>>,
    /// The agents of projects whose current sessions to release: 1 to 100.
    #[deserr(default, try_from(Option<Vec<String>>) = listed -> FieldError)]
    #[schemars(length(min = 1, max = 100))]
    pub agent_ids: Option<BTreeSet<ProjectAgentId>>,
}

fn listed<T>(texts: Option<Vec<String>>) -> Result<Option<BTreeSet<T>>, FieldError>
where
    T: FromStr<Err: Display> + Display + Ord,
{
    let Some(texts) = texts else { return Ok(None) };
    if !(1..=100).contains(&texts.len()) {
        return Err(FieldError("must have 1 to 100 entries".to_owned()));
    }
    let ids: Vec<T> = distinct_ids(texts)?;
    Ok(Some(ids.into_iter().collect()))
}

fn named_brake(text: Option<String>) -> Result<Option<BrakeId>, FieldError> {
    text.map(|text| text.parse::<BrakeId>().map_err(|error| FieldError(error.to_string()))).transpose()
}

/// A brake with the pool that it holds back.
struct ReleaseState {
    brake: LoadedAggregate<Brake>,
    pool: LoadedPool,
    /// The sessions that the brake named when it was pulled.
    sessions: Vec<Arc<AgentSession>>,
    /// The sessions to release, with the agents of projects that they belong to; `None`: all.
    some: Option<BTreeMap<AgentSessionId, Option<ProjectMembership>>>,
    /// The decision that releases the brake, if it has one.
    decision: Option<Loaded<FreeDecision>>,
}

impl ReleaseBrake {
    /// The sessions that the request names. Those of other owners are not found.
    async fn sessions(
        &self,
        app: &App,
        command: &CommandContext,
    ) -> Result<Option<BTreeMap<AgentSessionId, Option<ProjectMembership>>>, Problem> {
        if self.session_ids.is_none() && self.agent_ids.is_none() {
            return Ok(None);
        }
        let mut ids = self.session_ids.clone().unwrap_or_default();
        for agent in self.agent_ids.iter().flatten() {
            ids.insert(app.load_aggregate::<ProjectAgent>(command, *agent).await?.value.current_session_id());
        }
        let mut some = BTreeMap::new();
        for id in ids {
            some.insert(id, app.session_of(&command.owner, id).await?.project().cloned());
        }
        Ok(Some(some))
    }
}

/// Responds with 200 and the brake. Sessions that the brake stopped resume, and sessions that wait in line start.
async fn release_brake(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<BrakeId>,
    body: Body<ReleaseBrake>,
) -> Result<CommandResponse, Problem> {
    release(&app, &command.with_body(&body.hash), id, &body.input).await
}

/// Responds as `POST /api/brakes/{id}/release` does. Responds with 422 if no brake is named and not exactly one is in force.
async fn release_only_brake(
    State(app): State<App>,
    command: CommandContext,
    body: Body<ReleaseOnlyBrake>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    if let Some(earlier) = command.earlier_response(&app.store).await? {
        return Ok(earlier);
    }
    let ReleaseOnlyBrake { brake_id, session_ids, agent_ids } = body.input;
    let id = match brake_id {
        Some(id) => id,
        None => only_brake(&app, &command).await?,
    };
    release(&app, &command, id, &ReleaseBrake { session_ids, agent_ids }).await
}

async fn only_brake(app: &App, command: &CommandContext) -> Result<BrakeId, Problem> {
    let brakes = app.store.brakes(&command.owner).await?;
    let in_force: Vec<_> = brakes.iter().map(|brake| brake.id).collect();
    match in_force[..] {
        [id] => Ok(id),
        [] => Err(Problem::invalid("brakeId", "no brake is in force")),
        _ => Err(Problem::invalid("brakeId", "is required, because several brakes are in force")),
    }
}

async fn release(
    app: &App,
    command: &CommandContext,
    id: BrakeId,
    input: &ReleaseBrake,
) -> Result<CommandResponse, Problem> {
    let load = async || {
        let brake = app.load_aggregate::<Brake>(command, id).await?;
        let pool = app.store.pool_with(&command.owner, LineScope::Nothing).await?;
        let some = input.sessions(app, command).await?;
        let sessions = load_sessions(app, brake.value.session_ids()).await?;
        let decision = match brake.value.release_decision_id() {
            Some(id) => app.store.free_decision(id).await?,
            None => None,
        };
        Ok(ReleaseState { brake, pool, sessions, some, decision })
    };
    let decide = |state: ReleaseState, ctx: &mut DomainContext<'_>| {
        let ReleaseState { mut brake, mut pool, sessions, some, decision } = state;
        command.check_version(brake.version)?;
        let events = match &some {
            Some(some) => brake.value.release_sessions(some, &mut pool.value, ctx.now)?,
            None => brake.value.release(ReleasedBy::Owner, &mut pool.value, ctx.now)?,
        };
        let view = BrakeView::of(&brake.value, &sessions, brake.next_version());
        let response = CommandResponse::ok(brake.next_version(), &view)?;
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &brake, command.cause(), events)?;
        commit.pool(&command.owner, &pool)?;
        if let Some(mut decision) = decision.filter(|_| brake.value.released().is_some())
            && decision.value.cancel(CancelReason::BrakeReleased, ctx.now).is_ok()
        {
            commit.free_decision(&decision)?;
        }
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(command, load, decide).await
}
