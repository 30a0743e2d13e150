//! Intake and clock in the races and breaks that a running server meets once in a while: what an intake that was ended
//! between two of its commits left behind still counts (rulings 9, 17), and what is due is never forgotten (ruling 12).

// A test that cannot go on has failed, also in its helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod meddling;
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

/// The index keeps a deadline's place while it is ahead, and nobody is told again of a place that stays. So whoever finds
/// that a deadline was put off must not leave its place to somebody who kept it.
#[tokio::test]
async fn a_session_whose_deadline_was_put_off_is_moved_on_although_another_change_came_first() {
    // Given an agent that was heard since its place in the index was made
    let stage = Stage::open().await;
    let (session, run) = stage.running_session().await;
    let silent = stage.app.deadlines.silent;
    stage.later(silent / 2);
    stage
        .hears(session, run, 3, event(json!({ "type": "log_chunk", "stream": "agent", "content": "busy" })))
        .await;
    // When the place has come, and a change that began before that comes between the clock's look and its commit
    let store = pilothouse_store::Store::new(std::sync::Arc::new(stage.table.table.clone()));
    let late = store.conversation(session).await.unwrap().unwrap();
    stage.later(silent / 2 + std::time::Duration::from_secs(1));
    let deadlines = stage.app.deadlines;
    stage.table.before_the_next_commit(Box::pin(async move {
        let mut commit = pilothouse_store::Commit::new();
        commit.conversation(&late, &deadlines).unwrap();
        store.commit(commit).await.unwrap();
    }));
    clock::carry_out(&stage.app, session).await.unwrap();
    // Then it stands where something is due next
    let due = stage.app.store.due_times(stage.app.now() + silent, 10).await.unwrap();
    assert_eq!(due.len(), 1);
    assert!(due[0].1 > stage.app.now(), "nobody would look at it again before a sweep");
}
