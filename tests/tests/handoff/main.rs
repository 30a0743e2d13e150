//! Handoffs, wherever a process dies: at every transaction of a chain of sessions, before and after it is committed, with
//! everything delivered again. No session, message or cent is lost or doubled (rulings 21, 30, 33, 34).

// A test that cannot go on has failed, also in its helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dying;
mod stage;

use std::collections::BTreeSet;

use dying::Death;
use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::value::MessagePriority::{Immediate, Queued};
use pilothouse_domain::{AgentSession, AgentSessionId, Usd};
use serde_json::Value;
use stage::{Stage, begins, document, ends, exhausted, message, spends};

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

/// Three sessions: one with a document after its exhaustion, one without a document, one that works on.
fn three() -> Vec<Vec<Value>> {
    vec![
        vec![begins(), spends("0.4"), exhausted(), document("half"), ends()],
        vec![document("early"), begins(), spends("0.3"), exhausted(), ends()],
        vec![begins(), spends("0.2")],
    ]
}

/// Everything that must be true when it has come to rest.
async fn is_whole(stage: &Stage, what: &str) {
    let sessions = stage.sessions().await;
    let statuses: Vec<_> = sessions.iter().map(AgentSession::status).collect();
    assert_eq!(statuses, [S::ContextExhausted, S::ContextExhausted, S::Running], "{what}");
    let ids: Vec<_> = sessions.iter().map(AgentSession::id).collect();
    let last = &sessions[2];

    // One chain, with every session once.
    let chains = stage.chains().await;
    let [chain] = chains.as_slice() else { panic!("{what}: {} chains", chains.len()) };
    assert_eq!(chain.sessions().map(|it| it.session_id).collect::<Vec<_>>(), ids, "{what}");
    let handed: Vec<_> =
        chain.handoffs().iter().map(|it| (it.from_session_id, it.to_session_id, it.synthesized)).collect();
    assert_eq!(handed, [(ids[0], Some(ids[1]), false), (ids[1], Some(ids[2]), false)], "{what}");
    for (before, after) in sessions.iter().zip(&sessions[1..]) {
        assert_eq!(before.continuation(), Some(after.id()), "{what}");
        let given = after.continues().unwrap().document.as_ref();
        assert_eq!(given, before.handoff_document(), "{what}");
        assert_eq!(stage.happened(after.id(), "SessionWorkTakenUpEvent").await, 1, "{what}");
        assert_eq!(stage.happened(after.id(), "SessionRunRequestedEvent").await, 1, "{what}: one run");
    }

    // Every message once, in its order.
    let mut waiting = Vec::new();
    for id in &ids {
        let queue = stage.conversation(*id).await.queue;
        waiting.extend(queue.messages().iter().map(|it| (*id, it.message_id, it.delivery_uncertain)));
    }
    assert_eq!(
        waiting,
        [(ids[2], message(3), false), (ids[2], message(1), false), (ids[2], message(2), false)],
        "{what}"
    );

    // Every cent once.
    let spent: Vec<_> = sessions.iter().map(|session| session.metrics().total_cost_usd).collect();
    assert_eq!(spent, [usd("0.4"), usd("0.3"), usd("0.2")], "{what}");
    assert_eq!(
        (last.budget().carried_usd(), last.budget().remaining_usd()),
        (usd("0.7"), usd("1.1")),
        "{what}"
    );

    // The slot is the last one's.
    let run = last.run().unwrap().id;
    assert_eq!(stage.slots().await.into_iter().collect::<Vec<_>>(), [(last.id(), run)], "{what}");
}

const MESSAGES: [(u128, pilothouse_domain::value::MessagePriority); 3] =
    [(1, Queued), (2, Queued), (3, Immediate)];

#[tokio::test]
async fn a_death_at_any_step_of_a_chain_loses_and_doubles_nothing() {
    let mut deaths = 0;
    for how in [Death::Before, Death::After] {
        for at in 1.. {
            let mut stage = Stage::open(three()).await;
            stage.start("2", &MESSAGES).await;
            stage.dies_at(at, how);
            stage.until_quiet().await;
            is_whole(&stage, &format!("dead at transaction {at}, {how:?}")).await;
            stage.react_again().await;
            is_whole(&stage, &format!("dead at transaction {at}, {how:?}, and all reactions again")).await;
            if !stage.died() {
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths > 20, "{deaths} deaths are not every step");
}

/// Late spend of a predecessor pauses who works now when nothing is left, and counts once (ruling 33).
#[tokio::test]
async fn late_spend_reaches_who_works_now() {
    for how in [Death::Before, Death::After] {
        for at in 1.. {
            let mut stage = Stage::open(three()).await;
            let first = stage.start("1", &[]).await;
            let run = run_of(&stage, first).await;
            stage.until_quiet().await;
            stage.dies_at(at, how);
            let late = || [serde_json::from_value(spends("0.6")).unwrap()].into_iter();
            stage.hear(first, run, 7, late()).await;
            stage.until_quiet().await;
            // Its sidecar sends again what was not taken.
            stage.hear(first, run, 7, late()).await;
            stage.until_quiet().await;
            stage.react_again().await;

            let sessions = stage.sessions().await;
            let last = &sessions[2];
            assert_eq!(sessions[0].metrics().total_cost_usd, usd("0.6"), "{how:?} {at}");
            assert_eq!(last.budget().carried_usd(), usd("0.9"), "{how:?} {at}");
            assert_eq!(last.budget().overshoot_usd(), usd("0.1"));
            assert_eq!(last.status(), S::Pausing, "nothing is left");
            assert_eq!(stage.happened(last.id(), "SessionBudgetExhaustedEvent").await, 1);
            if !stage.died() {
                break;
            }
        }
    }
}

async fn run_of(stage: &Stage, id: AgentSessionId) -> pilothouse_domain::RunId {
    stage.conversation(id).await.session.run().unwrap().id
}

/// Without a document one is put together; the agent's own, when it comes late, is said to who works now, once (ruling 34).
#[tokio::test]
async fn a_late_document_is_said_once() {
    for how in [Death::Before, Death::After] {
        for at in 1.. {
            let tells = vec![vec![begins(), exhausted(), ends()], vec![begins()]];
            let mut stage = Stage::open(tells).await;
            let first = stage.start("1", &[]).await;
            let run = run_of(&stage, first).await;
            stage.until_quiet().await;
            assert!(stage.chains().await[0].handoffs()[0].synthesized);
            stage.dies_at(at, how);
            let late = || [serde_json::from_value(document("late words")).unwrap()].into_iter();
            for _ in 0..2 {
                stage.hear(first, run, 5, late()).await;
                stage.until_quiet().await;
            }
            stage.react_again().await;

            let sessions = stage.sessions().await;
            assert_eq!(sessions.len(), 2);
            let queue = stage.conversation(sessions[1].id()).await.queue;
            let [said] = queue.messages() else { panic!("{how:?} {at}: {:?}", queue.messages()) };
            assert!(said.content.as_str().contains("late words") && said.priority == Immediate);
            assert!(!stage.chains().await[0].handoffs()[0].synthesized);
            if !stage.died() {
                break;
            }
        }
    }
}

/// Nothing left: the continuation waits without a slot until the cap is raised (ruling 33).
#[tokio::test]
async fn a_continuation_without_money_waits_for_the_cap() {
    let tells = vec![vec![begins(), exhausted(), spends("1.5"), document("all of it")], vec![begins()]];
    let mut stage = Stage::open(tells).await;
    stage.start("1", &[(1, Queued)]).await;
    stage.until_quiet().await;
    let sessions = stage.sessions().await;
    let [_, next] = sessions.as_slice() else { panic!("{} sessions", sessions.len()) };
    assert!(next.waits_for_budget() && next.run().is_none());
    assert_eq!(next.budget().overshoot_usd(), usd("0.5"));
    assert!(stage.slots().await.is_empty(), "what cannot run holds no slot");
    assert_eq!(stage.conversation(next.id()).await.queue.messages().len(), 1);

    raise(&stage, next.id(), "3").await;
    stage.until_quiet().await;
    let next = stage.conversation(next.id()).await.session;
    assert_eq!((next.status(), next.budget().remaining_usd()), (S::Running, usd("1.5")));
    assert_eq!(stage.slots().await.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([next.id()]));
}

async fn raise(stage: &Stage, id: AgentSessionId, cap: &str) {
    let mut loaded = stage.app.store.conversation(id).await.unwrap().unwrap();
    let events = loaded.conversation.session.change_budget(usd(cap), None).unwrap();
    let mut commit = pilothouse_store::Commit::new();
    stage.app.record(&mut commit, &mut loaded, pilothouse_domain::journal::Cause::Clock, events).unwrap();
    stage.app.store.commit(commit).await.unwrap();
}

/// Until the continuation has begun, the agent's own document takes the place of the one that was put together (ruling 34).
#[tokio::test]
async fn a_late_document_replaces_the_synthesized_one_until_its_reader_begins() {
    let tells = vec![vec![begins(), exhausted(), spends("1.5"), ends()], vec![begins()]];
    let mut stage = Stage::open(tells).await;
    let first = stage.start("1", &[]).await;
    let run = run_of(&stage, first).await;
    stage.until_quiet().await;
    let next = stage.sessions().await[1].id();
    let given = async |stage: &Stage| {
        let session = stage.conversation(next).await.session;
        session.continues().unwrap().document.clone().unwrap().document
    };
    assert!(given(&stage).await.synthesized);
    stage.hear(first, run, 6, [serde_json::from_value(document("my own")).unwrap()].into_iter()).await;
    stage.until_quiet().await;
    assert_eq!(given(&stage).await.summary.as_str(), "my own");
    assert!(stage.conversation(next).await.queue.messages().is_empty());
    raise(&stage, next, "3").await;
    stage.until_quiet().await;
    stage.react_again().await;
    assert!(stage.conversation(next).await.queue.messages().is_empty(), "what was given is not said, too");
}

/// The slot goes with the work, past who waits in line (ruling 21).
#[tokio::test]
async fn who_waits_for_a_slot_does_not_get_that_of_a_handoff() {
    for how in [Death::Before, Death::After] {
        for at in 1.. {
            let tells = vec![vec![begins(), exhausted(), document("half")], vec![begins()]];
            let mut stage = Stage::open(tells).await;
            let first = stage.start("1", &[]).await;
            let neighbour = stage.start("1", &[]).await;
            stage.dies_at(at, how);
            stage.until_quiet().await;
            stage.react_again().await;
            let next = stage.conversation(first).await.session.continuation().unwrap();
            assert_eq!(stage.slots().await.into_keys().collect::<Vec<_>>(), [next], "{how:?} {at}");
            assert_eq!(stage.conversation(neighbour).await.session.status(), S::Queued);
            if !stage.died() {
                break;
            }
        }
    }
}
