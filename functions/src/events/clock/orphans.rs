//! Removes orphaned command queues: those of runs that ended more than an hour ago.
//!
//! The end of a run removes its queue ([`run_lifecycle`](crate::reactions::run_lifecycle)). A queue is left behind only if that
//! keeps failing, or if a late launch creates the queue again. Such queues are rare, so each sweep checks only a few.

use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_broker::QueueName;
use pilothouse_domain::session::Sender;
use pilothouse_domain::{RunId, Timestamp};
use pilothouse_runtime::ProcessState;

/// The most queues that one sweep checks. The next sweep continues after them.
const MAX_QUEUES_PER_SWEEP: usize = 20;

/// The time after which the queue of an ended run counts as orphaned: an hour, in proportion to the other deadlines.
fn orphan_age(app: &App) -> Duration {
    app.deadlines.silence_timeout * 40
}

/// Removes orphaned queues and returns their number. A failure is logged, and a later sweep tries again.
pub async fn sweep(app: &App) -> Result<usize, Problem> {
    let all = app.broker.list(queues::COMMANDS).await.map_err(Problem::internal)?;
    // A run that was created less than an hour ago cannot have ended an hour ago.
    let old: Vec<_> = all.into_iter().filter_map(|queue| Some((run_of(app, &queue)?, queue))).collect();
    let swept = app.store.sweep_position().await?;
    let after = swept.as_deref().unwrap_or_default();
    let mut left = old.iter().filter(|(_, queue)| queue.as_str() > after);
    let mut removed = 0;
    let mut last = None;
    for (run, queue) in left.by_ref().take(MAX_QUEUES_PER_SWEEP) {
        match clear(app, *run, queue).await {
            Ok(cleared) => removed += usize::from(cleared),
            Err(cause) => {
                tracing::warn!(%run, cause = %error_chain(&cause), "failed to check a command queue");
            }
        }
        last = Some(queue.as_str().to_owned());
    }
    // After the last queue the sweep starts over.
    let goes_on = last.filter(|_| left.next().is_some());
    if goes_on != swept {
        app.store.set_sweep_position(goes_on).await?;
    }
    Ok(removed)
}

/// Returns the run of a queue, if the run is old enough.
fn run_of(app: &App, queue: &QueueName) -> Option<RunId> {
    let run: RunId = queue.as_str().strip_prefix(queues::COMMANDS)?.strip_suffix(".fifo")?.parse().ok()?;
    let (seconds, nanos) = run.uuid().get_timestamp()?.to_unix();
    let minted = i64::try_from(seconds * 1000 + u64::from(nanos / 1_000_000)).ok()?;
    (Timestamp::from_millis(minted) + orphan_age(app) <= app.now()).then_some(run)
}

async fn clear(app: &App, run: RunId, queue: &QueueName) -> Result<bool, Problem> {
    let over = match app.store.session_of_run(run).await? {
        Some(id) => match app.store.session(id).await? {
            Some(session) => match session.sender(run) {
                Sender::Current(_) => false,
                Sender::Past(_) => {
                    let past = session.past_runs().iter().find(|past| past.id == run);
                    let ended = past.and_then(|past| past.ended_at);
                    ended.is_none_or(|at| at + orphan_age(app) <= app.now())
                }
                // The session has forgotten the run because too many others followed.
                Sender::Unknown => true,
            },
            None => true,
        },
        // No session is known for the run, but the runtime may know it.
        None => matches!(app.runtime.state(run).await, ProcessState::Dead | ProcessState::Unknown),
    };
    if over {
        app.broker.remove(queue).await.map_err(Problem::internal)?;
        app.store.forget_session_of_run(run).await?;
        tracing::info!(%run, "removed an orphaned command queue");
    }
    Ok(over)
}
