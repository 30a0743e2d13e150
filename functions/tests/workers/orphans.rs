use std::time::Duration;

use pilothouse_app::{FreshIds, queues};
use pilothouse_broker::QueueOptions;
use pilothouse_domain::{IdSource as _, RunId};
use pilothouse_functions::events::clock::orphans;
use pilothouse_wire::launch::LaunchRequest;

use crate::fixture::WorkersFixture;

async fn with_queue(fixture: &WorkersFixture) -> LaunchRequest {
    let request = fixture.session("ada").await;
    fixture.app.store.record_session_of_run(request.run_id, request.session_id).await.unwrap();
    queues::create_commands(&fixture.broker, request.run_id).await.unwrap();
    request
}

async fn left(fixture: &WorkersFixture) -> usize {
    fixture.app.broker.list(queues::COMMANDS).await.unwrap().len()
}

#[tokio::test]
async fn run_queue_is_deleted_an_hour_after_the_run_ends() {
    let fixture = WorkersFixture::new().await;
    let (alive, over) = (with_queue(&fixture).await, with_queue(&fixture).await);
    fixture.pass(Duration::from_hours(5));
    assert_eq!(orphans::sweep(&fixture.app).await.unwrap(), 0, "however old");
    fixture.end(&over).await;
    fixture.pass(Duration::from_mins(59));
    assert_eq!(orphans::sweep(&fixture.app).await.unwrap(), 0);
    fixture.pass(Duration::from_mins(2));
    assert_eq!(orphans::sweep(&fixture.app).await.unwrap(), 1);
    let kept = fixture.app.broker.list(queues::COMMANDS).await.unwrap();
    assert_eq!(kept, [queues::commands(alive.run_id)]);
    assert_eq!(fixture.app.store.session_of_run(over.run_id).await.unwrap(), None);
}

#[tokio::test]
async fn unknown_run_queue_is_deleted_after_an_hour() {
    let fixture = WorkersFixture::new().await;
    let unknown = RunId::new(FreshIds.fresh());
    queues::create_commands(&fixture.broker, unknown).await.unwrap();
    let other = pilothouse_broker::QueueName::parse("commands-of-somebody.fifo").unwrap();
    let options = QueueOptions { visibility: Duration::from_secs(1), max_receives: None };
    fixture.app.broker.create(&other, options).await.unwrap();
    assert_eq!(orphans::sweep(&fixture.app).await.unwrap(), 0, "its launch may be in progress");
    fixture.pass(Duration::from_mins(61));
    assert_eq!(orphans::sweep(&fixture.app).await.unwrap(), 1);
    assert_eq!(fixture.app.broker.list(queues::COMMANDS).await.unwrap(), [other]);
}

#[tokio::test]
async fn sweep_continues_where_the_last_one_stopped() {
    let fixture = WorkersFixture::new().await;
    let mut last = None;
    for _ in 0..25 {
        last = Some(with_queue(&fixture).await);
    }
    fixture.end(&last.unwrap()).await;
    fixture.pass(Duration::from_mins(61));
    assert_eq!(orphans::sweep(&fixture.app).await.unwrap(), 0, "the first twenty are alive");
    assert!(fixture.app.store.sweep_position().await.unwrap().is_some());
    assert_eq!(orphans::sweep(&fixture.app).await.unwrap(), 1, "the next one is orphaned");
    assert_eq!(fixture.app.store.sweep_position().await.unwrap(), None, "the next sweep starts over");
    assert_eq!(left(&fixture).await, 24);
}
