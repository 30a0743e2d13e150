//! Intake and clock under rare races and crashes: an intake that was killed between two commits loses no event (decisions 9, 17), and no
//! deadline is forgotten (decision 12).

// Helpers panic on errors, which fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fixture;
mod liveness;

use fixture::IntakeFixture;
use pilothouse_app::queues;
use pilothouse_broker::Depth;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{SessionEvent, Timestamp, Usd};
use pilothouse_functions::events::clock;
use pilothouse_wire::RawEvent;
use pilothouse_wire::keys::sha256_hex;
use serde_json::json;

fn event(body: serde_json::Value) -> RawEvent {
    serde_json::from_value(body).unwrap()
}

/// The key itself is never stored (decision 8).
#[tokio::test]
async fn started_session_has_the_sha_256_of_its_api_key() {
    let fixture = IntakeFixture::open().await;
    let (id, _) = fixture.running_session().await;
    let hash = sha256_hex(fixture.app.secret.api_key(id, 0).as_bytes());
    assert_eq!(fixture.session(id).await.api_key_hash(), Some(hash.as_str()));
}

#[tokio::test]
async fn parked_and_queued_events_count_before_the_run_ends() {
    // An intake has taken three events of a working agent out of a gap and has not applied them.
    let fixture = IntakeFixture::open().await;
    let (session, run) = fixture.running_session().await;
    let usage = json!({ "type": "usage_update", "meterId": "m", "modelId": "m", "costUsd": "0.25",
        "tokenUsage": { "inputTokens": 1, "outputTokens": 1, "cacheReadTokens": 0, "cacheWriteTokens": 0 } });
    fixture
        .left_by_an_intake(
            session,
            &[
                event(json!({ "type": "log_chunk", "stream": "agent", "content": "before" })),
                event(usage),
                event(json!({ "type": "turn_completed", "turnId": "t-1" })),
            ],
        )
        .await;
    // The clock is the first to detect the silence.
    fixture.silent_for_too_long();
    clock::carry_out(&fixture.app, session).await.unwrap();
    // The applied events count as activity, and the silence after them counts again.
    fixture.silent_for_too_long();
    clock::carry_out(&fixture.app, session).await.unwrap();
    fixture.takes_events().await;
    fixture.later(std::time::Duration::from_secs(6));
    clock::carry_out(&fixture.app, session).await.unwrap();
    // The journal contains the events in order, followed by the end of the run.
    let journal = fixture.app.store.journal(session, 0, 200).await.unwrap();
    let story: Vec<String> = journal
        .iter()
        .filter_map(|entry| match &entry.cause {
            Cause::Agent { run_id, sequence: Some(sequence), .. } if *run_id == run => {
                Some(format!("event {sequence}"))
            }
            _ => {
                let ended = entry.events.iter().any(|event| matches!(event, SessionEvent::RunEnded { .. }));
                ended.then(|| "the end".to_owned())
            }
        })
        .collect();
    assert_eq!(story, ["event 1", "event 2", "event 3", "event 4", "event 5", "the end"]);
    // The agent did not fail, because it had ended its turn. Its spend counts.
    let session = fixture.app.store.conversation(session).await.unwrap().unwrap().conversation.session;
    assert_eq!(session.status(), AgentSessionStatus::Idle);
    assert!(session.hibernated() && session.run().is_none());
    assert_eq!(session.budget().estimated_cost_usd(), "0.25".parse::<Usd>().unwrap());
}

#[tokio::test]
async fn event_keeps_the_time_of_its_emission_while_it_waits() {
    let fixture = IntakeFixture::open().await;
    let run = fixture.running_session().await;
    let emitted = Some(Timestamp::from_millis(7));
    // Event 4 is parked by an earlier commit than that of event 3; event 6 by that of event 5.
    for chunks in [&[(4, emitted)][..], &[(3, None)], &[(6, emitted), (5, None)]] {
        fixture.hears_chunks(run, chunks).await;
    }
    let journal = fixture.app.store.journal(run.0, 0, 200).await.unwrap();
    let times: Vec<_> = journal
        .iter()
        .filter_map(|entry| match &entry.cause {
            Cause::Agent { sequence: Some(sequence @ 3..), occurred_at, .. } => {
                Some((*sequence, *occurred_at))
            }
            _ => None,
        })
        .collect();
    let sealed = Some(Timestamp::from_millis(0));
    assert_eq!(times, [(3, sealed), (4, emitted), (5, sealed), (6, emitted)]);
}

/// A text of this length is kept in a blob. Its entry is small, so the table may still have space for it.
#[tokio::test]
async fn event_waits_on_a_full_disk_for_any_number_of_receives() {
    let fixture = IntakeFixture::open().await;
    let (session, run) = fixture.running_session().await;
    fixture.blobs.set_full(true);
    let long = json!({ "type": "log_chunk", "stream": "agent", "content": "x".repeat(40 * 1024) });
    fixture.hears(session, run, 3, event(long)).await;
    // Longer than any pause between two receives.
    let pause = std::time::Duration::from_secs(31);
    for _ in 0..110 {
        fixture.later(pause);
        fixture.takes_events().await;
    }
    let broker = &fixture.app.broker;
    assert_eq!(broker.dead_letter_depth(&queues::events()).await.unwrap(), 0);
    fixture.blobs.set_full(false);
    fixture.later(pause);
    fixture.takes_events().await;
    let journal = fixture.app.store.journal(session, 0, 200).await.unwrap();
    let applied = journal.iter().filter(
        |entry| matches!(&entry.cause, Cause::Agent { run_id, sequence: Some(3), .. } if *run_id == run),
    );
    assert_eq!(applied.count(), 1);
    assert_eq!(broker.depth(&queues::events()).await.unwrap(), Depth::default());
}

/// The index keeps the place of a postponed deadline, and does not report an unchanged place again. The clock must therefore update the
/// place of such a deadline, even if a concurrent change kept it.
#[tokio::test]
async fn postponed_deadline_moves_despite_a_concurrent_change() {
    // The agent was active after its place in the index was set.
    let fixture = IntakeFixture::open().await;
    let (session, run) = fixture.running_session().await;
    let silent = fixture.app.deadlines.silence_timeout;
    fixture.later(silent / 2);
    fixture
        .hears(session, run, 3, event(json!({ "type": "log_chunk", "stream": "agent", "content": "busy" })))
        .await;
    // An older change commits between the clock's read and its commit.
    let store = pilothouse_store::Store::new(std::sync::Arc::new(fixture.table.table.clone()));
    let late = store.conversation(session).await.unwrap().unwrap();
    fixture.later(silent / 2 + std::time::Duration::from_secs(1));
    let deadlines = fixture.app.deadlines;
    fixture.table.before_next_commit(Box::pin(async move {
        let mut commit = pilothouse_store::Commit::new();
        commit.conversation(&late, &deadlines).unwrap();
        store.commit(commit).await.unwrap();
    }));
    clock::carry_out(&fixture.app, session).await.unwrap();
    // The place is that of the next deadline.
    let due = fixture.app.store.due_times(fixture.app.now() + silent, 10).await.unwrap();
    assert_eq!(due.len(), 1);
    assert!(due[0].1 > fixture.app.now(), "the session would not be checked before a sweep");
}
