//! Handoffs with crashes: at every transaction of a chain of sessions, before and after the commit, with every message redelivered. No
//! session, message or cent is lost or duplicated (decisions 21, 30, 33, 34).

// Helpers panic on errors, which fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fixture;

use std::collections::BTreeSet;

use fixture::{HandoffFixture, begins, document, ends, exhausted, message, spends};
use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::value::MessagePriority::{Immediate, Queued};
use pilothouse_domain::{AgentSession, AgentSessionId, Usd};
use pilothouse_test_support::CrashPoint;
use serde_json::Value;

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

/// The first sends its document after its exhaustion, the second before, and the third is working.
fn three() -> Vec<Vec<Value>> {
    vec![
        vec![begins(), spends("0.4"), exhausted(), document("half"), ends()],
        vec![document("early"), begins(), spends("0.3"), exhausted(), ends()],
        vec![begins(), spends("0.2")],
    ]
}

/// Checks all invariants at rest.
async fn is_whole(fixture: &HandoffFixture, what: &str) {
    let sessions = fixture.sessions().await;
    let statuses: Vec<_> = sessions.iter().map(AgentSession::status).collect();
    assert_eq!(statuses, [S::ContextExhausted, S::ContextExhausted, S::Running], "{what}");
    let ids: Vec<_> = sessions.iter().map(AgentSession::id).collect();
    let last = &sessions[2];

    // One chain contains every session once.
    let chains = fixture.chains().await;
    let [chain] = chains.as_slice() else { panic!("{what}: {} chains", chains.len()) };
    assert_eq!(chain.sessions().map(|it| it.session_id).collect::<Vec<_>>(), ids, "{what}");
    let handed: Vec<_> =
        chain.handoffs().iter().map(|it| (it.from_session_id, it.to_session_id, it.synthesized)).collect();
    assert_eq!(handed, [(ids[0], Some(ids[1]), false), (ids[1], Some(ids[2]), false)], "{what}");
    for (before, after) in sessions.iter().zip(&sessions[1..]) {
        assert_eq!(before.continuation(), Some(after.id()), "{what}");
        let given = after.continues().unwrap().document.as_ref();
        assert_eq!(given, before.handoff_document(), "{what}");
        assert_eq!(fixture.happened(after.id(), "SessionWorkTakenUpEvent").await, 1, "{what}");
        assert_eq!(fixture.happened(after.id(), "SessionRunRequestedEvent").await, 1, "{what}: one run");
    }

    // Every message is kept once, in order.
    let mut waiting = Vec::new();
    for id in &ids {
        let queue = fixture.conversation(*id).await.queue;
        waiting.extend(queue.messages().iter().map(|it| (*id, it.message_id, it.delivery_uncertain)));
    }
    assert_eq!(
        waiting,
        [(ids[2], message(3), false), (ids[2], message(1), false), (ids[2], message(2), false)],
        "{what}"
    );

    let spent: Vec<_> = sessions.iter().map(|session| session.metrics().usage.total_cost_usd()).collect();
    assert_eq!(spent, [usd("0.4"), usd("0.3"), usd("0.2")], "{what}");
    assert_eq!(
        (last.budget().carried_usd(), last.budget().remaining_usd()),
        (usd("0.7"), usd("1.1")),
        "{what}"
    );

    let run = last.run().unwrap().id;
    assert_eq!(fixture.slots().await.into_iter().collect::<Vec<_>>(), [(last.id(), run)], "{what}");
}

const MESSAGES: [(u128, pilothouse_domain::value::MessagePriority); 3] =
    [(1, Queued), (2, Queued), (3, Immediate)];

#[tokio::test]
async fn crash_at_any_handoff_step_loses_and_duplicates_nothing() {
    let mut crashes = 0;
    for how in [CrashPoint::BeforeCommit, CrashPoint::AfterCommit] {
        for at in 1.. {
            let mut fixture = HandoffFixture::open(three()).await;
            fixture.start("2", &MESSAGES).await;
            fixture.crash_at(at, how);
            fixture.until_quiet().await;
            is_whole(&fixture, &format!("dead at transaction {at}, {how:?}")).await;
            fixture.react_again().await;
            is_whole(&fixture, &format!("dead at transaction {at}, {how:?}, with all reactions repeated"))
                .await;
            if !fixture.has_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes > 20, "{crashes} crashes do not cover every step");
}

/// Late spend of a predecessor pauses the current session if nothing is left, and counts once (decision 33).
#[tokio::test]
async fn late_spend_reaches_the_current_session() {
    for how in [CrashPoint::BeforeCommit, CrashPoint::AfterCommit] {
        for at in 1.. {
            let mut fixture = HandoffFixture::open(three()).await;
            let first = fixture.start("1", &[]).await;
            let run = run_of(&fixture, first).await;
            fixture.until_quiet().await;
            fixture.crash_at(at, how);
            let late = || [serde_json::from_value(spends("0.6")).unwrap()].into_iter();
            fixture.hear(first, run, 7, late()).await;
            fixture.until_quiet().await;
            // The sidecar resends unacknowledged events.
            fixture.hear(first, run, 7, late()).await;
            fixture.until_quiet().await;
            fixture.react_again().await;

            let sessions = fixture.sessions().await;
            let last = &sessions[2];
            assert_eq!(sessions[0].metrics().usage.total_cost_usd(), usd("0.6"), "{how:?} {at}");
            assert_eq!(last.budget().carried_usd(), usd("0.9"), "{how:?} {at}");
            assert_eq!(last.budget().overshoot_usd(), usd("0.1"));
            assert_eq!(last.status(), S::Pausing, "the budget is exhausted");
            assert_eq!(fixture.happened(last.id(), "SessionBudgetExhaustedEvent").await, 1);
            if !fixture.has_crashed() {
                break;
            }
        }
    }
}

async fn run_of(fixture: &HandoffFixture, id: AgentSessionId) -> pilothouse_domain::RunId {
    fixture.conversation(id).await.session.run().unwrap().id
}

/// Without a document one is synthesized. A late document of the agent is sent to the current session, once (decision 34).
#[tokio::test]
async fn late_document_is_reported_once() {
    for how in [CrashPoint::BeforeCommit, CrashPoint::AfterCommit] {
        for at in 1.. {
            let reports = vec![vec![begins(), exhausted(), ends()], vec![begins()]];
            let mut fixture = HandoffFixture::open(reports).await;
            let first = fixture.start("1", &[]).await;
            let run = run_of(&fixture, first).await;
            fixture.until_quiet().await;
            assert!(fixture.chains().await[0].handoffs()[0].synthesized);
            fixture.crash_at(at, how);
            let late = || [serde_json::from_value(document("late words")).unwrap()].into_iter();
            for _ in 0..2 {
                fixture.hear(first, run, 5, late()).await;
                fixture.until_quiet().await;
            }
            fixture.react_again().await;

            let sessions = fixture.sessions().await;
            assert_eq!(sessions.len(), 2);
            let queue = fixture.conversation(sessions[1].id()).await.queue;
            let [said] = queue.messages() else { panic!("{how:?} {at}: {:?}", queue.messages()) };
            assert!(said.content.as_str().contains("late words") && said.priority == Immediate);
            assert!(!fixture.chains().await[0].handoffs()[0].synthesized);
            if !fixture.has_crashed() {
                break;
            }
        }
    }
}

/// Without budget, the continuation waits without a slot until the cap is raised (decision 33).
#[tokio::test]
async fn continuation_without_budget_waits_for_the_cap() {
    let reports = vec![vec![begins(), exhausted(), spends("1.5"), document("all of it")], vec![begins()]];
    let mut fixture = HandoffFixture::open(reports).await;
    fixture.start("1", &[(1, Queued)]).await;
    fixture.until_quiet().await;
    let sessions = fixture.sessions().await;
    let [_, next] = sessions.as_slice() else { panic!("{} sessions", sessions.len()) };
    assert!(next.waits_for_budget() && next.run().is_none());
    assert_eq!(next.budget().overshoot_usd(), usd("0.5"));
    assert!(fixture.slots().await.is_empty(), "a session that cannot run holds no slot");
    assert_eq!(fixture.conversation(next.id()).await.queue.messages().len(), 1);

    raise(&fixture, next.id(), "3").await;
    fixture.until_quiet().await;
    let next = fixture.conversation(next.id()).await.session;
    assert_eq!((next.status(), next.budget().remaining_usd()), (S::Running, usd("1.5")));
    assert_eq!(fixture.slots().await.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([next.id()]));
}

async fn raise(fixture: &HandoffFixture, id: AgentSessionId, cap: &str) {
    let mut loaded = fixture.app.store.conversation(id).await.unwrap().unwrap();
    let events = loaded
        .conversation
        .session
        .change_budget(pilothouse_domain::session::BudgetChange {
            cap_usd: Some(usd(cap)),
            ..Default::default()
        })
        .unwrap();
    let mut commit = pilothouse_store::Commit::new();
    fixture.app.record(&mut commit, &mut loaded, pilothouse_domain::journal::Cause::Clock, events).unwrap();
    fixture.app.store.commit(commit).await.unwrap();
}

/// Until the continuation has begun, a late document of the agent replaces the synthesized one (decision 34).
#[tokio::test]
async fn late_document_replaces_the_synthesized_one_until_it_is_read() {
    let reports = vec![vec![begins(), exhausted(), spends("1.5"), ends()], vec![begins()]];
    let mut fixture = HandoffFixture::open(reports).await;
    let first = fixture.start("1", &[]).await;
    let run = run_of(&fixture, first).await;
    fixture.until_quiet().await;
    let next = fixture.sessions().await[1].id();
    let given = async |fixture: &HandoffFixture| {
        let session = fixture.conversation(next).await.session;
        session.continues().unwrap().document.clone().unwrap().document
    };
    assert!(given(&fixture).await.synthesized);
    fixture.hear(first, run, 6, [serde_json::from_value(document("my own")).unwrap()].into_iter()).await;
    fixture.until_quiet().await;
    assert_eq!(given(&fixture).await.summary.as_str(), "my own");
    assert!(fixture.conversation(next).await.queue.messages().is_empty());
    raise(&fixture, next, "3").await;
    fixture.until_quiet().await;
    fixture.react_again().await;
    assert!(
        fixture.conversation(next).await.queue.messages().is_empty(),
        "a replaced document is not sent as a message"
    );
}

/// The slot passes to the continuation, ahead of queued sessions (decision 21).
#[tokio::test]
async fn queued_session_does_not_get_the_slot_of_a_handoff() {
    for how in [CrashPoint::BeforeCommit, CrashPoint::AfterCommit] {
        for at in 1.. {
            let reports = vec![vec![begins(), exhausted(), document("half")], vec![begins()]];
            let mut fixture = HandoffFixture::open(reports).await;
            let first = fixture.start("1", &[]).await;
            let neighbour = fixture.start("1", &[]).await;
            fixture.crash_at(at, how);
            fixture.until_quiet().await;
            fixture.react_again().await;
            let next = fixture.conversation(first).await.session.continuation().unwrap();
            assert_eq!(fixture.slots().await.into_keys().collect::<Vec<_>>(), [next], "{how:?} {at}");
            assert_eq!(fixture.conversation(neighbour).await.session.status(), S::Queued);
            if !fixture.has_crashed() {
                break;
            }
        }
    }
}
