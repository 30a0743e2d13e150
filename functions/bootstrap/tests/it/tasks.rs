use std::time::Duration;

use pilothouse_app::queues;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::{RawEvent, Signed};
use serde_json::Value;

use crate::bootstrap_fixture::{BootstrapFixture, fixture, invoke};

#[tokio::test]
async fn stopped_task_is_reported_to_the_intake() {
    let host = BootstrapFixture::new().await;
    let event = fixture("task-stopped");
    assert_eq!(invoke(&host.function("runs-task-stopped"), &event).await, Value::Null);
    let messages = host.app.broker.receive(&queues::events(), 10, Duration::ZERO).await.unwrap();
    let session: AgentSessionId = "01900000-0000-7000-8000-000000000001".parse().unwrap();
    let run: RunId = event["detail"]["startedBy"].as_str().unwrap().parse().unwrap();
    assert_eq!((messages.len(), messages[0].group.clone()), (1, session.to_string()));
    let opened = Signed::parse(&messages[0].body).unwrap().open(&host.app.secret.runtime_key(run)).unwrap();
    let RawEvent::RunExited(exit) = serde_json::from_str(opened.body.get()).unwrap() else {
        panic!("{opened:?}")
    };
    assert_eq!((opened.session_id, exit.signal, exit.drained), (session, Some(9), false));
}

#[tokio::test]
async fn other_tasks_and_changes_are_ignored() {
    let host = BootstrapFixture::new().await;
    let mut starting = fixture("task-stopped");
    starting["detail"]["lastStatus"] = "RUNNING".into();
    let mut foreign = fixture("task-stopped");
    foreign["detail"]["group"] = "service:web".into();
    for event in [starting, foreign] {
        invoke(&host.any(), &event).await;
    }
    assert_eq!(host.app.broker.depth(&queues::events()).await.unwrap().visible, 0);
}
