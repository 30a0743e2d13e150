//! `POST /api/brakes/{id}/release`: releases an emergency brake, or some of its sessions (S2 "Emergency Brake", decision 72).

use std::collections::BTreeSet;

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
use pilothouse_domain::{AgentSession, AgentSessionId, BrakeId, DomainContext};
use pilothouse_store::{Commit, LineScope, LoadedAggregate, LoadedPool};
use schemars::JsonSchema;

use crate::queries::brakes::sessions_of;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("brakes-release", Verb::Post, "/api/brakes/{id}/release", |verb| {
        verb.route(release_brake)
    })
    .owner()
    .summary("Release an emergency brake")
    .input::<ReleaseBrake>()
    .output::<BrakeView>(&[200]);

/// What to release.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseBrake {
    /// The sessions to release: 1 to 100. Default: all, which ends the brake.
    #[deserr(default, try_from(Option<Vec<String>>) = listed_sessions -> FieldError)]
    #[schemars(length(min = 1, max = 100))]
    pub session_ids: Option<BTreeSet<AgentSessionId>>,
}

fn listed_sessions(texts: Option<Vec<String>>) -> Result<Option<BTreeSet<AgentSessionId>>, FieldError> {
    let Some(texts) = texts else { return Ok(None) };
    if !(1..=100).contains(&texts.len()) {
        return Err(FieldError("must have 1 to 100 entries".to_owned()));
    }
    let ids: Vec<AgentSessionId> = distinct_ids(texts)?;
    Ok(Some(ids.into_iter().collect()))
}

/// A brake with the pool that it holds back.
struct ReleaseState {
    brake: LoadedAggregate<Brake>,
    pool: LoadedPool,
    /// The sessions that the brake named when it was pulled.
    sessions: Vec<AgentSession>,
}

/// Responds with 200 and the brake. Sessions that the brake stopped resume, and sessions that wait in line start.
async fn release_brake(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<BrakeId>,
    body: Body<ReleaseBrake>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let load = async || {
        let brake = app.load_aggregate::<Brake>(&command, id).await?;
        let pool = app.store.pool_with(&command.owner, LineScope::Nothing).await?;
        if let Some(ids) = &body.input.session_ids {
            for session in ids {
                app.session_of(&command.owner, *session).await?;
            }
        }
        let sessions = sessions_of(&app, brake.value.session_ids()).await?;
        Ok(ReleaseState { brake, pool, sessions })
    };
    let decide = |state: ReleaseState, ctx: &mut DomainContext<'_>| {
        let ReleaseState { mut brake, mut pool, sessions } = state;
        command.check_version(brake.version)?;
        let events = match &body.input.session_ids {
            Some(ids) => brake.value.release_sessions(ids, &mut pool.value, ctx.now)?,
            None => brake.value.release(ReleasedBy::Owner, &mut pool.value, ctx.now)?,
        };
        let view = BrakeView::of(&brake.value, &sessions, brake.next_version());
        let response = CommandResponse::ok(brake.next_version(), &view)?;
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &brake, command.cause(), events)?;
        commit.pool(&command.owner, &pool)?;
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(&command, load, decide).await
}
