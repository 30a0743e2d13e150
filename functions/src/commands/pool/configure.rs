//! `PATCH /api/agents/pool`: changes the number of slots of the pool (decision 21).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::pool::PoolView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::record_views::{self, UnreachableSince};
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::{DomainContext, SessionEvent};
use pilothouse_store::{Commit, LoadedConversation, LoadedPool, StoreError};
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("pool-configure", Verb::Patch, "/api/agents/pool", |verb| verb.route(configure_pool))
        .owner()
        .summary("Change the number of slots of the pool")
        .input::<ConfigurePool>()
        .output::<PoolView>(&[200]);

/// The new configuration of the pool.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigurePool {
    /// The largest number of sessions that run at once: 1 to 1000. A lower number does not stop running sessions.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent_sessions: u32,
}

/// A pool, with the sessions that its new configuration concerns.
struct PoolState {
    pool: LoadedPool,
    unreachable: UnreachableSince,
    /// The session that receives the first free slot of the new configuration.
    next: Option<LoadedConversation>,
}

/// Responds with 200 and the pool. New slots start waiting sessions.
async fn configure_pool(
    State(app): State<App>,
    command: CommandContext,
    body: Body<ConfigurePool>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let load = async || {
        let pool = app.store.pool(&command.owner).await?;
        let mut configured = pool.value.clone();
        let is_accepted = command.check_version(pool.version).is_ok()
            && configured.configure(body.input.max_concurrent_sessions).is_ok();
        if !is_accepted {
            // The decision refuses the command without more reads.
            return Ok(PoolState { pool, unreachable: UnreachableSince::new(), next: None });
        }
        let unreachable = record_views::unreachable_leases(&app.store, &configured).await?;
        let next = next_in_line(&app, configured).await?;
        Ok(PoolState { pool, unreachable, next })
    };
    let decide = |PoolState { mut pool, unreachable, next }: PoolState, _: &mut DomainContext<'_>| {
        command.check_version(pool.version)?;
        pool.value.configure(body.input.max_concurrent_sessions)?;
        let version = pool.next_version();
        let view = record_views::pool_with(&pool.value, version, &unreachable);
        let response = CommandResponse::ok(version, &view)?;
        let mut commit = Commit::new();
        commit.pool(&command.owner, &pool)?;
        if let Some(mut loaded) = next {
            // The pool has no journal. The event is recorded in the journal of the first waiting session, so that the
            // reaction allocates the slots even if this process ends.
            let event = SessionEvent::PoolConfigured {
                max_count: pool.value.max_concurrent_sessions(),
                next: Some(loaded.conversation.session.id()),
            };
            app.record(&mut commit, &mut loaded, command.cause(), vec![event])?;
        }
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(&command, load, decide).await
}

/// The session that receives the first free slot. Skips sessions that no longer exist; the reaction removes them from the line.
async fn next_in_line(app: &App, mut pool: SessionPool) -> Result<Option<LoadedConversation>, StoreError> {
    while let Some(next) = pool.next_waiting() {
        let loaded = app.store.conversation(next).await?;
        if loaded.is_some() {
            return Ok(loaded);
        }
        pool.stop_waiting(next);
    }
    Ok(None)
}
