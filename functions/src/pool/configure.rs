//! `PATCH /api/agents/pool`: changes the number of slots (ruling 21).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_store::{Commit, CommitError, Store};
use schemars::JsonSchema;

use crate::api::pool::PoolView;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::Problem;
use crate::edge::input::{Body, Violations};
use crate::reactions::hand_on_slots;

/// The new number.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigurePool {
    /// Slots: 1 to 1000. Lowering it stops nobody.
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent_sessions: u32,
}

/// 200 with the pool; sessions that wait are started as slots allow.
pub async fn handle(State(app): State<App>, call: Call, body: Body<ConfigurePool>) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    for attempt in 0..32 {
        if let Some(answer) = call.earlier_answer(&app.store).await? {
            return Ok(answer);
        }
        let mut pool = app.store.pool(&call.owner).await?;
        call.check(pool.version)?;
        pool.value.configure(body.input.max_concurrent_sessions)?;
        let answer = Answer::ok(pool.version + 1, &PoolView::of(&pool.value, pool.version + 1))?;
        let mut commit = Commit::new();
        commit.pool(&call.owner, &pool)?;
        call.keep_answer(&mut commit, &answer, &app)?;
        match app.store.commit(commit).await {
            Ok(()) => {
                // Sessions in line have no event of their own to be woken by; the sweep is the belt to this.
                hand_on_slots::fill(&app, &call.owner).await?;
                return Ok(answer);
            },
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            },
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
