//! `GET /api/agents/pool`: how full the pool is (S0 8.7 `GetSessionPoolUtilizationQuery`).

use axum::extract::State;

use crate::api::pool::PoolView;
use crate::app::App;
use crate::change::Answer;
use crate::edge::{Owner, Problem};

/// 200 with slots, leases and the line.
pub async fn handle(State(app): State<App>, Owner(owner): Owner) -> Result<Answer, Problem> {
    let pool = app.store.pool(&owner).await?;
    Answer::ok(pool.version, &PoolView::of(&pool.value, pool.version))
}
