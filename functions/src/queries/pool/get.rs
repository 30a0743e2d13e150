//! `GET /api/agents/pool`: returns the utilization of the pool (S0 8.7 `GetSessionPoolUtilizationQuery`).

use axum::extract::State;
use pilothouse_api::pool::PoolView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};
use pilothouse_app::record_views;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("pool-get", Verb::Get, "/api/agents/pool", |verb| verb.route(get_pool))
        .owner()
        .summary("Get the utilization of the pool")
        .output::<PoolView>(&[200]);

/// Responds with 200, the number of slots, the leases and the waiting sessions.
async fn get_pool(State(app): State<App>, Owner(owner): Owner) -> Result<CommandResponse, Problem> {
    let pool = app.store.pool_snapshot(&owner).await?;
    CommandResponse::ok(pool.version, &record_views::pool(&app.store, &pool.value, pool.version).await?)
}
