//! What an intake that was ended between two of its commits left behind still counts (rulings 9, 17).

// A test that cannot go on has failed, also in its helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod stage;

use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{DomainEvent, Usd};
use pilothouse_functions::clock;
use pilothouse_wire::RawEvent;
use serde_json::json;
use stage::Stage;

fn event(body: serde_json::Value) -> RawEvent {
    serde_json::from_value(body).unwrap()
}

#[tokio::test]
async fn what_is_parked_and_next_counts_before_the_death_of_its_run() {
    // Given an agent at work, and three events of it that an intake has taken out of a gap and not yet applied
    let stage = Stage::open().await;
    let (session, run) = stage.running_session().await;
    let usage = json!({ "type": "usage_update", "meterId": "m", "modelId": "m", "costUsd": "0.25",
        "tokenUsage": { "inputTokens": 1, "outputTokens": 1, "cacheReadTokens": 0, "cacheWriteTokens": 0 } });
    stage
        .left_by_an_intake(
            session,
            &[
                event(json!({ "type": "log_chunk", "stream": "agent", "content": "before" })),
                event(usage),
                event(json!({ "type": "turn_completed", "turnId": "t-1" })),
            ],
        )
        .await;
    // When nothing is heard of it any more, and the clock is the first to notice
    stage.silent_for_too_long();
    clock::carry_out(&stage.app, session).await.unwrap();
    // What was applied counts as heard, and the silence after it as well
    stage.silent_for_too_long();
    clock::carry_out(&stage.app, session).await.unwrap();
    // Then the events are in the journal, in order, and the end of the run comes after them
    let journal = stage.app.store.journal(session, 0, 200).await.unwrap();
    let story: Vec<String> = journal
        .iter()
        .filter_map(|entry| match &entry.cause {
            Cause::Agent { run_id, sequence: Some(sequence), .. } if *run_id == run => {
                Some(format!("event {sequence}"))
            }
            _ => {
                let ended = entry.events.iter().any(|event| matches!(event, DomainEvent::RunEnded { .. }));
                ended.then(|| "the end".to_owned())
            }
        })
        .collect();
    assert_eq!(story, ["event 1", "event 2", "event 3", "event 4", "event 5", "the end"]);
    // And the agent did not fail: it had ended its turn, and spent what it said
    let session = stage.app.store.conversation(session).await.unwrap().unwrap().conversation.session;
    assert_eq!(session.status(), AgentSessionStatus::Idle);
    assert!(session.hibernated() && session.run().is_none());
    assert_eq!(session.budget().estimated_cost_usd(), "0.25".parse::<Usd>().unwrap());
}
