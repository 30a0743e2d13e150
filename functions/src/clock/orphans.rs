//! Queues of commands that were left behind: of runs that have been over for an hour and whose end did not remove them.
//!
//! The end of a run removes its queue ([`run_lifecycle`](crate::reactions::run_lifecycle)); that this fails until it is a
//! dead letter, or that a late launch makes the queue again, is rare. So a sweep looks at a few, in turn.

use std::time::Duration;

use pilothouse_broker::QueueName;
use pilothouse_domain::session::Sender;
use pilothouse_domain::{RunId, Timestamp};
use pilothouse_runtime::ProcessState;

use crate::app::App;
use crate::edge::Problem;
use crate::intake::chain;
use crate::queues;

/// Queues that one sweep looks up, at most; the next goes on after them.
const A_SWEEP: usize = 20;

/// How long a run is over before its queue counts as left behind: an hour, in proportion to the other limits of waiting.
fn patience(app: &App) -> Duration {
    app.deadlines.silent * 40
}

/// Removes some of what was left behind. Returns how many there were. A queue that fails is logged and looked at again in
/// its turn.
pub async fn sweep(app: &App) -> Result<usize, Problem> {
    let all = app.broker.list(queues::COMMANDS).await.map_err(Problem::internal)?;
    // What was minted an hour ago cannot be over for as long.
    let old: Vec<_> = all.into_iter().filter_map(|queue| Some((run_of(app, &queue)?, queue))).collect();
    let swept = app.store.swept_queue().await?;
    let after = swept.as_deref().unwrap_or_default();
    let mut left = old.iter().filter(|(_, queue)| queue.as_str() > after);
    let mut removed = 0;
    let mut last = None;
    for (run, queue) in left.by_ref().take(A_SWEEP) {
        match clear(app, *run, queue).await {
            Ok(cleared) => removed += usize::from(cleared),
            Err(cause) => {
                tracing::warn!(%run, cause = %chain(&cause), "a queue that may be left behind could not be looked at");
            }
        }
        last = Some(queue.as_str().to_owned());
    }
    // Behind the last one it begins anew.
    let goes_on = last.filter(|_| left.next().is_some());
    if goes_on != swept {
        app.store.keep_swept_queue(goes_on).await?;
    }
    Ok(removed)
}

/// The run of a queue, if it is old enough to have been over for long.
fn run_of(app: &App, queue: &QueueName) -> Option<RunId> {
    let run: RunId = queue.as_str().strip_prefix(queues::COMMANDS)?.strip_suffix(".fifo")?.parse().ok()?;
    let (seconds, nanos) = run.uuid().get_timestamp()?.to_unix();
    let minted = i64::try_from(seconds * 1000 + u64::from(nanos / 1_000_000)).ok()?;
    (Timestamp::from_millis(minted) + patience(app) <= app.now()).then_some(run)
}

async fn clear(app: &App, run: RunId, queue: &QueueName) -> Result<bool, Problem> {
    let over = match app.store.session_of_run(run).await? {
        Some(id) => match app.store.session(id).await? {
            Some(session) => match session.sender(run) {
                Sender::Current(_) => false,
                Sender::Past(_) => {
                    let past = session.past_runs().iter().find(|past| past.id == run);
                    let ended = past.and_then(|past| past.ended_at);
                    ended.is_none_or(|at| at + patience(app) <= app.now())
                }
                // Too many came after it for its session to remember it.
                Sender::Unknown => true,
            },
            None => true,
        },
        // Nobody remembers whose it is; the runtime may.
        None => !matches!(app.runtime.state(run).await, ProcessState::Alive | ProcessState::Waiting),
    };
    if over {
        app.broker.remove(queue).await.map_err(Problem::internal)?;
        app.store.forget_run(run).await?;
        tracing::info!(%run, "a queue that was left behind is removed");
    }
    Ok(over)
}
