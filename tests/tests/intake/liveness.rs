//! Effects of silence and their limits: suspicion, backlogs, clock steps, and outages of the control plane.

use std::time::Duration;

use pilothouse_api::sessions::SessionView;
use pilothouse_app::queues;
use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_functions::events::clock;
use pilothouse_runtime::ProcessState;
use pilothouse_test_support::sealed_event;
use serde_json::{Value, json};

use crate::fixture::IntakeFixture;

const MINUTE: Duration = Duration::from_mins(1);

async fn count(fixture: &IntakeFixture, id: AgentSessionId, name: &str) -> usize {
    let journal = fixture.app.store.journal(id, 0, 200).await.unwrap();
    journal.iter().flat_map(|entry| &entry.events).filter(|event| event.name() == name).count()
}

fn log() -> Value {
    json!({ "type": "log_chunk", "stream": "agent", "content": "busy" })
}

/// Processes an event, whose body may be malformed.
async fn hears(fixture: &IntakeFixture, id: AgentSessionId, run: RunId, sequence: u64, body: Value) {
    let message = sealed_event(&fixture.app, id, run, Some(sequence), body);
    fixture.app.broker.send(&queues::events(), vec![message]).await.unwrap();
    fixture.takes_events().await;
}

/// Sidecars send no heartbeats while their events are accepted.
#[tokio::test]
async fn events_without_heartbeats_keep_a_run_reachable() {
    let fixture = IntakeFixture::with_processes(ProcessState::Unreachable).await;
    let (id, run) = fixture.running_session().await;
    for sequence in 3..13 {
        fixture.works(MINUTE).await;
        let body = if sequence % 2 == 0 { log() } else { json!({ "type": "nonsense" }) };
        hears(&fixture, id, run, sequence, body).await;
    }
    fixture.works(MINUTE).await;
    assert_eq!(count(&fixture, id, "SessionRunUnreachableEvent").await, 0);
    assert_eq!(fixture.app.store.last_heartbeat(id, run).await.unwrap(), None, "events write no heartbeat");
    fixture.works(MINUTE).await;
    assert_eq!(count(&fixture, id, "SessionRunUnreachableEvent").await, 1, "silence still counts");
}

#[tokio::test]
async fn event_that_is_not_applied_counts_as_a_heartbeat() {
    let fixture = IntakeFixture::with_processes(ProcessState::Unreachable).await;
    let (id, run) = fixture.running_session().await;
    fixture.later(MINUTE);
    let now = fixture.app.now();
    hears(&fixture, id, run, 5, log()).await;
    let heard_at = fixture.session(id).await.run().unwrap().heard_at;
    assert!(heard_at >= Some(now), "an event that arrives early");
    hears(&fixture, id, run, 2, log()).await;
    let last_heartbeat = async || fixture.app.store.last_heartbeat(id, run).await.unwrap();
    assert_eq!(last_heartbeat().await, None, "a repeated event soon after another event");
    fixture.later(fixture.app.deadlines.heartbeat_interval());
    let now = fixture.app.now();
    hears(&fixture, id, run, 2, log()).await;
    assert!(last_heartbeat().await >= Some(now), "a repeated event after an interval");
}

#[tokio::test]
async fn a_silent_run_is_unreachable_until_a_heartbeat() {
    let fixture = IntakeFixture::with_processes(ProcessState::Unreachable).await;
    let (id, run) = fixture.running_session().await;
    fixture.works(MINUTE).await;
    assert_eq!(fixture.session(id).await.unreachable_since(), None);
    fixture.works(30 * MINUTE).await;
    let session = fixture.session(id).await;
    assert_eq!(session.status(), S::Running);
    assert!(SessionView::of(&session).unreachable);
    fixture.heartbeat(id, run).await;
    fixture.takes_events().await;
    let session = fixture.session(id).await;
    assert!(!SessionView::of(&session).unreachable);
    assert_eq!(session.run().unwrap().id, run);
    assert_eq!(count(&fixture, id, "SessionRunUnreachableEvent").await, 1);
    assert_eq!(count(&fixture, id, "SessionRunReachableEvent").await, 1);
}

#[tokio::test]
async fn a_silent_process_that_lives_is_stopped_after_ten_minutes() {
    let fixture = IntakeFixture::with_processes(ProcessState::Alive).await;
    let (id, _) = fixture.running_session().await;
    fixture.works(10 * MINUTE).await;
    assert_eq!(count(&fixture, id, "SessionRunStopOrderedEvent").await, 0);
    fixture.works(3 * MINUTE).await;
    assert_eq!(count(&fixture, id, "SessionRunStopOrderedEvent").await, 1);
}

#[tokio::test]
async fn run_with_queued_events_is_not_silent() {
    let fixture = IntakeFixture::with_processes(ProcessState::Unknown).await;
    let (id, run) = fixture.running_session().await;
    // The intake does not run while heartbeats arrive.
    for _ in 0..20 {
        fixture.heartbeat(id, run).await;
        fixture.watches(MINUTE / 4).await;
    }
    fixture.takes_events().await;
    fixture.works(MINUTE).await;
    let session = fixture.session(id).await;
    assert_eq!((session.status(), session.run().unwrap().id), (S::Running, run));
    assert_eq!(session.unreachable_since(), None);
    // Without heartbeats the run ends.
    fixture.works(2 * MINUTE).await;
    assert_eq!(fixture.session(id).await.status(), S::Failed);
}

#[tokio::test]
async fn a_clock_step_or_a_suspension_ends_nothing() {
    for step in [5 * MINUTE, 60 * MINUTE, 9 * 60 * MINUTE] {
        // The runtime woke up at the same time, so its report does not matter.
        for state in [ProcessState::Alive, ProcessState::Unreachable] {
            let fixture = IntakeFixture::with_processes(state).await;
            let (id, run) = fixture.running_session().await;
            fixture.works(MINUTE / 4).await;
            fixture.later(step);
            fixture.works(MINUTE / 4).await;
            fixture.heartbeat(id, run).await;
            fixture.works(MINUTE).await;
            let session = fixture.session(id).await;
            assert_eq!((session.status(), session.run().unwrap().id), (S::Running, run));
            assert_eq!(session.journal_sequence(), 3, "the session is unchanged");
        }
    }
}

#[tokio::test]
async fn command_sent_before_a_clock_step_gets_a_new_deadline() {
    let fixture = IntakeFixture::with_processes(ProcessState::Alive).await;
    let (id, run) = fixture.running_session().await;
    fixture.works(MINUTE / 4).await;
    let mut loaded = fixture.app.store.conversation(id).await.unwrap().unwrap();
    let mut ids = pilothouse_app::FreshIds;
    let mut ctx = fixture.app.domain_context(&mut ids);
    let events = loaded.conversation.session.request_interrupt(&mut ctx).unwrap();
    pilothouse_test_support::commit_events(&fixture.app, loaded, events).await;
    fixture.later(60 * MINUTE);
    fixture.heartbeat(id, run).await;
    fixture.works(MINUTE / 4).await;
    assert_eq!(count(&fixture, id, "SessionCommandReissuedEvent").await, 0);
    fixture.heartbeat(id, run).await;
    fixture.works(MINUTE / 3).await;
    assert_eq!(count(&fixture, id, "SessionCommandReissuedEvent").await, 1);
    assert_eq!(fixture.session(id).await.status(), S::Interrupting);
}

#[tokio::test]
async fn restarted_server_adopts_its_runs() {
    for away in [MINUTE, 30 * MINUTE, 24 * 60 * MINUTE] {
        let fixture = IntakeFixture::with_processes(ProcessState::Alive).await;
        let (id, run) = fixture.running_session().await;
        fixture.works(MINUTE / 4).await;
        fixture.later(away);
        clock::watch::started(&fixture.app).await.unwrap();
        fixture.works(MINUTE / 2).await;
        fixture.heartbeat(id, run).await;
        fixture.works(MINUTE).await;
        let session = fixture.session(id).await;
        assert_eq!((session.status(), session.run().unwrap().id), (S::Running, run));
        assert_eq!(session.journal_sequence(), 3, "the session is unchanged");
    }
}
