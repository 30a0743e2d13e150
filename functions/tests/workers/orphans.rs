//! Queues of commands that were left behind.

use std::time::Duration;

use pilothouse_broker::QueueOptions;
use pilothouse_domain::{IdSource as _, RunId};
use pilothouse_functions::clock::orphans;
use pilothouse_functions::{app::FreshIds, queues};
use pilothouse_wire::launch::LaunchRequest;

use crate::stage::Stage;

/// A run with its queue, as its launch makes them.
async fn with_queue(stage: &Stage) -> LaunchRequest {
    let request = stage.session("ada").await;
    stage.app.store.remember_run(request.run_id, request.session_id).await.unwrap();
    queues::create_commands(&stage.broker, request.run_id).await.unwrap();
    request
}

async fn left(stage: &Stage) -> usize {
    stage.app.broker.list(queues::COMMANDS).await.unwrap().len()
}

#[tokio::test]
async fn the_queue_of_a_run_goes_an_hour_after_its_end_and_that_of_a_live_one_never() {
    let stage = Stage::new().await;
    let (alive, over) = (with_queue(&stage).await, with_queue(&stage).await);
    stage.pass(Duration::from_hours(5));
    assert_eq!(orphans::sweep(&stage.app).await.unwrap(), 0, "however old");
    stage.end(&over).await;
    stage.pass(Duration::from_mins(59));
    assert_eq!(orphans::sweep(&stage.app).await.unwrap(), 0);
    stage.pass(Duration::from_mins(2));
    assert_eq!(orphans::sweep(&stage.app).await.unwrap(), 1);
    let kept = stage.app.broker.list(queues::COMMANDS).await.unwrap();
    assert_eq!(kept, [queues::commands(alive.run_id)]);
    assert_eq!(stage.app.store.session_of_run(over.run_id).await.unwrap(), None);
}

#[tokio::test]
async fn a_queue_of_which_nobody_knows_whose_it_is_goes_unless_it_is_new_or_no_run_at_all() {
    let stage = Stage::new().await;
    let unknown = RunId::new(FreshIds.fresh());
    queues::create_commands(&stage.broker, unknown).await.unwrap();
    let other = pilothouse_broker::QueueName::parse("commands-of-somebody.fifo").unwrap();
    let options = QueueOptions { visibility: Duration::from_secs(1), max_receives: None };
    stage.app.broker.create(&other, options).await.unwrap();
    assert_eq!(orphans::sweep(&stage.app).await.unwrap(), 0, "its launch may be under way");
    stage.pass(Duration::from_mins(61));
    assert_eq!(orphans::sweep(&stage.app).await.unwrap(), 1);
    assert_eq!(stage.app.broker.list(queues::COMMANDS).await.unwrap(), [other]);
}

#[tokio::test]
async fn a_sweep_looks_at_some_and_the_next_goes_on_behind_them() {
    let stage = Stage::new().await;
    let mut last = None;
    for _ in 0..25 {
        last = Some(with_queue(&stage).await);
    }
    stage.end(&last.unwrap()).await;
    stage.pass(Duration::from_mins(61));
    assert_eq!(orphans::sweep(&stage.app).await.unwrap(), 0, "the first twenty are alive");
    assert!(stage.app.store.swept_queue().await.unwrap().is_some());
    assert_eq!(orphans::sweep(&stage.app).await.unwrap(), 1, "the one behind them is not");
    assert_eq!(stage.app.store.swept_queue().await.unwrap(), None, "and the next begins anew");
    assert_eq!(left(&stage).await, 24);
}
