//! `PATCH /api/agents/pool`: changes the number of slots (ruling 21).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::journal::Cause;
use pilothouse_store::{Commit, CommitError, Store};
use schemars::JsonSchema;

use crate::api::pool::PoolView;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::Problem;
use crate::edge::input::{Body, Violations};

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
pub async fn handle(
    State(app): State<App>,
    call: Call,
    body: Body<ConfigurePool>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    for attempt in 0..32 {
        if let Some(answer) = call.earlier_answer(&app.store).await? {
            return Ok(answer);
        }
        let mut pool = app.store.pool(&call.owner).await?;
        call.check(pool.version)?;
        let events = pool.value.configure(body.input.max_concurrent_sessions)?;
        let answer = Answer::ok(pool.version + 1, &PoolView::of(&pool.value, pool.version + 1))?;
        let mut commit = Commit::new();
        commit.pool(&call.owner, &pool)?;
        if let Some(next) = pool.value.next_in_line()
            && let Some(mut loaded) = app.store.conversation(next).await?
        {
            // The pool has no journal; who gains by it has: the reaction hands on the slots, whatever becomes of us.
            app.record(
                &mut commit,
                &mut loaded,
                Cause::Owner { function: call.function.to_owned() },
                events,
            )?;
        }
        call.keep_answer(&mut commit, &answer, &app)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(answer),
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
