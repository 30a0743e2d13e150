//! Context injections reach agents within turns, and never start one (S2 `injectContext`, decision 89).

use std::collections::BTreeSet;

use pilothouse_domain::injection::InjectionSlot;
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand, SessionError};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::Capabilities;
use pilothouse_domain::{CommandId, MessageId, SessionEvent};
use proptest::prelude::*;

use super::delivery::dispatched;
use crate::scenario::{
    Scenario, Step, can_all, completes, ends, message, new_message, starts, starts_with, starts_with_id,
};

fn inject(scenario: &mut Scenario, n: u128) -> Step {
    let content = MessageContent::parse(format!("knowledge {n}")).unwrap();
    scenario.commit::<SessionError>(|conv, ctx| Ok(conv.inject(message(n), content, ctx)))
}

fn injected(n: u128) -> AgentFact {
    AgentFact::MessageInjected(message(n))
}

fn waiting(scenario: &Scenario) -> Option<MessageId> {
    scenario.conv.queue.pending_injection().map(|pending| pending.message_id)
}

/// What the agent receives with a message.
fn text(scenario: &Scenario, n: u128) -> String {
    let queue = &scenario.conv.queue;
    queue.text_for_agent(queue.get(message(n)).unwrap())
}

fn refused(scenario: &Scenario, code: &str) -> AgentFact {
    let command = dispatched(scenario);
    AgentFact::CommandRefused { command, code: code.to_owned(), message: String::new() }
}

#[test]
fn injection_joins_the_running_turn_and_is_acknowledged() {
    Scenario::running()
        .when(|s| inject(s, 1))
        .then_events(&["MessageEnqueuedEvent", "MessageDispatchedEvent"])
        .then(|s| s.conv.queue.get(message(1)).unwrap().expected_turn_id.is_some(), &true)
        .then_queue(&[], &[])
        .observes(AgentFact::MessageInjecting(message(1)))
        .observes(injected(1))
        .then_events(&["MessageDeliveredEvent"])
        .observes(injected(1))
        .then_events(&[]);
}

#[test]
fn injection_neither_starts_a_turn_nor_requests_a_run() {
    Scenario::idle().when(|s| inject(s, 1)).then_events(&["MessageEnqueuedEvent"]).then_status(S::Idle);
    Scenario::idle()
        .when(|s| s.die(true))
        .then_hibernated(S::Idle)
        .when(|s| inject(s, 1))
        .then_events(&["MessageEnqueuedEvent"])
        .then_hibernated(S::Idle);
}

#[test]
fn idle_agent_receives_it_with_the_message_that_starts_a_turn() {
    let scenario = Scenario::idle().when(|s| inject(s, 1)).when(|s| s.follow_up(2));
    assert_eq!(text(&scenario, 2), "knowledge 1\n\n---\n\nmessage 2");
    scenario
        .then_events(&["MessageEnqueuedEvent", "MessageDispatchedEvent"])
        .observes(injected(2))
        .then_events(&["MessageDeliveredEvent", "MessageDeliveredEvent"])
        .observes(starts_with("t2", 2))
        .then(|s| s.conv.queue.injection_slot(), &InjectionSlot::Empty);
}

#[test]
fn commands_of_the_owner_keep_their_first_character() {
    for command in ["!ls", "/compact"] {
        let new = new_message(2, command);
        let scenario =
            Scenario::idle().when(|s| inject(s, 1)).when(|s| s.commit(|conv, ctx| conv.enqueue(new, ctx)));
        assert_eq!(text(&scenario, 2), command);
        // The injection joins the turn that the command starts.
        scenario.observes(starts_with("t2", 2)).then_event("MessageDispatchedEvent");
    }
}

#[test]
fn newest_injection_replaces_the_one_that_waits() {
    let scenario = Scenario::idle()
        .when(|s| inject(s, 1))
        .when(|s| inject(s, 2))
        .then_events(&["MessageCancelledEvent", "MessageEnqueuedEvent"]);
    assert_eq!(waiting(&scenario), Some(message(2)));
    assert_eq!(scenario.conv.closed_messages.len(), 1);
}

#[test]
fn second_injection_waits_until_the_first_is_delivered() {
    let scenario = Scenario::running()
        .when(|s| inject(s, 1))
        .when(|s| inject(s, 2))
        .then_events(&["MessageEnqueuedEvent"]);
    assert_eq!(waiting(&scenario), Some(message(2)));
    let scenario =
        scenario.observes(injected(1)).then_events(&["MessageDeliveredEvent", "MessageDispatchedEvent"]);
    let ids = scenario.last.iter().map(|event| match event {
        SessionEvent::MessageDelivered { message_id, .. }
        | SessionEvent::MessageDispatched { message_id, .. } => *message_id,
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [message(1), message(2)]);
    assert_eq!(waiting(&scenario), None);
}

#[test]
fn injection_in_a_failed_session_is_delivered_by_its_retry() {
    let scenario = Scenario::running()
        .when(|s| inject(s, 1))
        .observes(ends(true))
        .then_status(S::Failed)
        .when(|s| s.die(true))
        .then(waiting, &Some(message(1)))
        .when(Scenario::retry)
        .wakes()
        .observes(starts("t2"))
        .then_event("MessageDispatchedEvent");
    scenario.observes(injected(1)).then_events(&["MessageDeliveredEvent"]).then(waiting, &None);
}

#[test]
fn agents_without_steering_receive_it_with_the_next_turn() {
    let cannot = Capabilities { steer_mid_turn: false, ..can_all() };
    Scenario::launching()
        .observes(AgentFact::SidecarReady(cannot))
        .observes(starts("t1"))
        .when(|s| inject(s, 1))
        .then_events(&["MessageEnqueuedEvent"])
        .observes(completes("t1"))
        .then_no_event("MessageDispatchedEvent")
        .when(|s| s.follow_up(2))
        .observes(injected(2))
        .then_events(&["MessageDeliveredEvent", "MessageDeliveredEvent"]);
}

#[test]
fn injection_whose_turn_is_over_waits_for_the_next_turn() {
    let scenario = Scenario::running().when(|s| inject(s, 1));
    let refusal = refused(&scenario, "turn-over");
    let scenario =
        scenario.observes(refusal).then_events(&["SessionCommandRefusedEvent", "MessageReturnedEvent"]);
    assert_eq!(waiting(&scenario), Some(message(1)));
    scenario
        .observes(completes("t1"))
        .then_no_event("MessageDispatchedEvent")
        .then_status(S::Idle)
        .when(|s| s.follow_up(2))
        .observes(injected(2))
        .then_events(&["MessageDeliveredEvent", "MessageDeliveredEvent"]);
}

#[test]
fn undelivered_injection_returns_when_the_run_ends() {
    let scenario = Scenario::idle().when(|s| inject(s, 1)).when(|s| s.follow_up(2)).when(|s| s.die(true));
    assert_eq!(waiting(&scenario), Some(message(1)));
    scenario
        .then_queue(&[2], &[])
        .wakes()
        .then_event("MessageDispatchedEvent")
        .observes(injected(2))
        .then_events(&["MessageDeliveredEvent", "MessageDeliveredEvent"]);
}

#[test]
fn injection_that_may_have_arrived_is_never_repeated() {
    let scenario = Scenario::idle()
        .when(|s| inject(s, 1))
        .when(|s| s.follow_up(2))
        .observes(AgentFact::MessageInjecting(message(2)))
        .when(|s| s.die(true))
        .then_event("MessageDeliveryUncertainEvent");
    let lost = scenario.last.iter().any(|event| {
        matches!(event, SessionEvent::MessageCancelled { message_id, reason: Some(reason) }
            if *message_id == message(1) && reason == "delivery-uncertain")
    });
    assert!(lost && waiting(&scenario).is_none(), "{:?}", scenario.last);
}

fn cancelled(scenario: &Scenario) -> Vec<MessageId> {
    let ids = scenario.last.iter().filter_map(|event| match event {
        SessionEvent::MessageCancelled { message_id, .. } => Some(*message_id),
        _ => None,
    });
    ids.collect()
}

#[test]
fn injections_end_with_the_session() {
    Scenario::idle()
        .when(|s| inject(s, 1))
        .when(Scenario::cancel)
        .confirms(LifecycleCommand::Stop)
        .then(cancelled, &vec![message(1)])
        .when(|s| inject(s, 2))
        .then_events(&[]);
}

#[test]
fn owners_cannot_change_injections() {
    Scenario::idle()
        .when(|s| inject(s, 1))
        .refuses("not-found", |s| s.commit(|conv, _| conv.cancel_message(message(1))))
        .refuses("not-found", |s| s.commit(|conv, _| conv.queue.promote(message(1))))
        .when(|s| s.commit::<SessionError>(|conv, _| Ok(conv.clear_queue())))
        .then_events(&[]);
}

/// A session, the message that was sent last with its command, and the messages that were delivered.
struct Life {
    scenario: Scenario,
    sent: Option<(MessageId, CommandId)>,
    delivered: BTreeSet<MessageId>,
    turns: u32,
}

impl Life {
    fn step(&mut self, step: impl FnOnce(&mut Scenario)) -> Result<(), TestCaseError> {
        self.scenario.last.clear();
        step(&mut self.scenario);
        for event in &self.scenario.last {
            match event {
                SessionEvent::MessageDelivered { message_id, .. } => {
                    prop_assert!(self.delivered.insert(*message_id), "{message_id} twice");
                }
                SessionEvent::MessageDispatched { message_id, command } => {
                    self.sent = Some((*message_id, command.command_id));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn observe(&mut self, fact: AgentFact) -> Result<(), TestCaseError> {
        self.step(|s| s.observe(fact))
    }

    fn inject(&mut self, n: u128) -> Result<(), TestCaseError> {
        let status = self.scenario.conv.session.status();
        self.step(|s| inject(s, n).unwrap())?;
        let s = &self.scenario;
        let starts = ["SlotWanted", "TurnStarted", "RunRequested"];
        prop_assert!(starts.iter().all(|name| !s.happened(name)), "{:?}", s.last);
        prop_assert!(status == S::Running || !s.happened("MessageDispatchedEvent"), "{status}");
        let is_sent = self.sent.is_some_and(|(id, _)| id == message(n));
        prop_assert!(is_sent || !s.happened("MessageEnqueuedEvent") || waiting(s) == Some(message(n)));
        Ok(())
    }

    /// The agent begins to receive the message that was sent last, and perhaps acknowledges it.
    fn receive(&mut self, acknowledges: bool) -> Result<(), TestCaseError> {
        let Some((id, _)) = self.sent.take() else { return Ok(()) };
        let in_turn = self.scenario.conv.session.turn().is_some();
        self.observe(AgentFact::MessageInjecting(id))?;
        if acknowledges {
            self.observe(AgentFact::MessageInjected(id))?;
            if !in_turn {
                self.turns += 1;
                self.observe(starts_with_id(&format!("t{}", self.turns), id))?;
            }
        }
        Ok(())
    }
}

proptest! {
    /// Whatever happens between them: an injection starts nothing, the newest one waits, and none is delivered twice.
    #[test]
    fn injections_start_nothing_and_are_delivered_once(steps in prop::collection::vec(0_u8..10, 1..80)) {
        let scenario = Scenario::running();
        let mut life = Life { scenario, sent: None, delivered: BTreeSet::new(), turns: 1 };
        for (n, step) in (1..).zip(steps) {
            match step {
                0..=2 => life.inject(n)?,
                3 => life.step(|s| {
                    let _ = s.follow_up(n);
                })?,
                4 => life.step(|s| {
                    let _ = s.steer(n);
                })?,
                5 | 6 => life.receive(step == 5)?,
                7 => {
                    if let Some((_, command)) = life.sent.take() {
                        let (code, message) = ("turn-over".to_owned(), String::new());
                        life.observe(AgentFact::CommandRefused { command, code, message })?;
                    }
                }
                8 => {
                    if let Some(turn) = life.scenario.conv.session.turn().map(|turn| turn.id.clone()) {
                        life.observe(completes(turn.as_str()))?;
                    }
                }
                _ => {
                    life.step(|s| {
                        let _ = s.die(n % 2 == 0);
                    })?;
                    life.sent = None;
                    if life.scenario.conv.session.run().is_some() {
                        life.observe(AgentFact::SidecarReady(can_all()))?;
                    }
                }
            }
        }
    }
}
