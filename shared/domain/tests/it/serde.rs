//! Stored aggregates are read back unchanged.

use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::session::{AgentFact, Quota, Run};
use pilothouse_domain::value::{
    AgentConversations, AgentSettings, ContextWindowSnapshot, DeliverableCounts, SessionOutcome, TokenUsage,
};
use pilothouse_domain::{AgentSession, EventId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use uuid::Uuid;

use crate::scenario::{
    Scenario, asks, calls, completes, message, output, shows, starts_with, turn, usd, used, used_by,
};

fn there_and_back<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

fn assert_stored(scenario: &Scenario) {
    assert_eq!(there_and_back::<AgentSession>(&scenario.conv.session), scenario.conv.session);
    assert_eq!(there_and_back::<SessionMessageQueue>(&scenario.conv.queue), scenario.conv.queue);
    assert_eq!(there_and_back(&scenario.pool), scenario.pool);
    assert_eq!(there_and_back(&scenario.last), scenario.last);
    for subagent in scenario.conv.subagents.values() {
        assert_eq!(there_and_back(subagent), *subagent);
    }
}

#[test]
fn every_status_round_trips_through_storage() {
    for status in S::ALL {
        assert_stored(&Scenario::in_status(status));
    }
}

#[test]
fn complete_session_round_trips_through_storage() {
    let window = ContextWindowSnapshot {
        usage: TokenUsage { input_tokens: 1, output_tokens: 2, cache_read_tokens: 3, cache_write_tokens: 4 },
        model_context_limit: 200_000,
        recorded_at: "2026-11-21T20:11:35.696Z".parse().unwrap(),
    };
    let AgentFact::Used(mut report) = used("0.123456789012") else { unreachable!() };
    report.context_window = Some(window);
    let mut scenario = Scenario::reviewable()
        .when(|s| s.follow_up(1))
        .when(|s| s.follow_up(2))
        .when(|s| s.send(3, pilothouse_domain::value::MessagePriority::Queued, None))
        .observes(AgentFact::MessageInjecting(message(1)))
        .observes(starts_with("t2", 1))
        .observes(AgentFact::Used(report))
        .observes(used_by(Some("sub"), "0.9"))
        .observes(calls("c1"))
        .observes(AgentFact::PlanModeEntered)
        .observes(shows("p1"))
        .observes(asks("q1"))
        .when(|s| s.steer(4));
    assert_stored(&scenario);
    // A gap, a pending request, deferred facts, a waiting cancellation.
    scenario = Scenario::running().when(|s| s.pause()).observes(asks("q1")).observes(completes("t1"));
    scenario = scenario
        .observes(AgentFact::TurnCompleted {
            turn: turn("t1"),
            output: Some(output(3)),
            outcome: SessionOutcome::Completed,
        })
        .when(|s| s.cancel());
    let run = scenario.conv.session.run().unwrap().clone();
    let mut inbox = run.inbox.clone();
    inbox.park(7);
    assert_eq!(there_and_back(&inbox), inbox);
    assert_stored(&scenario);
}

/// Events do not repeat the ids that their entry has (S0 8.6).
#[test]
fn entry_of_the_journal_names_its_session_and_owner() {
    let Scenario { mut conv, last, now, .. } = Scenario::running().when(Scenario::interrupt);
    let id = EventId::new(Uuid::from_u128(1));
    let entry = JournalEntry::record(&mut conv.session, id, now, Cause::Clock, last.clone(), Vec::new());
    assert_eq!((entry.session_id, &entry.owner_id), (conv.session.id(), conv.session.owner_id()));
    assert_eq!(entry.events, last);
    assert_eq!(there_and_back(&entry), entry);
}

/// Sessions that were stored under the first names are read.
#[test]
fn renamed_fields_keep_their_stored_names() {
    for (fact, name) in [
        (AgentFact::SettingsReported(AgentSettings::default()), "SettingsTold"),
        (AgentFact::ConversationsReported(AgentConversations::default()), "ConversationsTold"),
        (AgentFact::DeliverablesReported(DeliverableCounts::default()), "DeliverablesTold"),
    ] {
        assert!(serde_json::to_value(fact).unwrap().get(name).is_some(), "{name}");
    }
    let quota = json!({ "toldAt": "2026-11-21T20:11:35.696Z", "pausedForIt": true });
    assert!(serde_json::from_value::<Quota>(quota).unwrap().paused_for_it);
    let scenario = Scenario::running();
    let mut stored = serde_json::to_value(scenario.conv.session.run().unwrap()).unwrap();
    stored["allowanceTold"] = json!("0.5");
    stored["missingTold"] = json!(["cost"]);
    let run: Run = serde_json::from_value(stored).unwrap();
    assert_eq!((run.sent_allowance, run.reported_missing.contains("cost")), (Some(usd("0.5")), true));
}
