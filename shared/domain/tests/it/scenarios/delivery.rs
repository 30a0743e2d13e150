//! When messages are delivered to the agent (decisions 28 to 30).

use pilothouse_domain::conversation::{FactOutcome, NewMessage};
use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand as C, ProcessState};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::{
    Capabilities, ContentHash, ImageType, MessageImage, MessagePriority, MessageSource, MessageStatus,
};
use pilothouse_domain::{AgentSessionId, CommandId, MessageId, SessionEvent};
use uuid::Uuid;

use crate::scenario::{Scenario, can_all, completes, ends, message, new_message, starts, starts_with};

fn injected(n: u128) -> AgentFact {
    AgentFact::MessageInjected(message(n))
}

pub(crate) fn dispatched(scenario: &Scenario) -> CommandId {
    let command = scenario.last.iter().find_map(|e| match e {
        SessionEvent::MessageDispatched { command, .. } => Some(command.command_id),
        _ => None,
    });
    command.expect("a message was dispatched")
}

/// The messages that left the queue, with their status in the record.
fn closed(scenario: &Scenario) -> Vec<(MessageId, MessageStatus)> {
    scenario.conv.closed_messages.iter().map(|m| (m.message_id, m.status)).collect()
}

#[test]
fn steering_is_sent_at_once_and_delivered_when_acknowledged() {
    let scenario = Scenario::running();
    let now = scenario.now;
    let enqueued = SessionEvent::MessageEnqueued {
        message_id: message(1),
        priority: MessagePriority::Immediate,
        source: MessageSource::User,
        content: MessageContent::parse("message 1").unwrap(),
        images: Vec::new(),
    };
    let delivered = SessionEvent::MessageDelivered {
        message_id: message(1),
        source: MessageSource::User,
        content: MessageContent::parse("message 1").unwrap(),
        images: Vec::new(),
        delivered_at: now,
    };
    scenario
        .when(|s| s.steer(1))
        .then_events(&["MessageEnqueuedEvent", "MessageDispatchedEvent"])
        .then(|s| s.last[0].clone(), &enqueued)
        .observes(AgentFact::MessageInjecting(message(1)))
        .then_queue(&[1], &[1])
        .observes(injected(1))
        .then(|s| s.last.clone(), &vec![delivered])
        .then_events(&["MessageDeliveredEvent"])
        .then_queue(&[], &[])
        .then(closed, &vec![(message(1), MessageStatus::Delivered)])
        .then(|s| s.conv.closed_messages[0].delivered_at, &Some(now))
        .observes(injected(1))
        .then_events(&[])
        .refuses("not-found", |s| s.commit(|c, _| c.cancel_message(message(1))));
}

#[test]
fn follow_ups_are_sent_one_per_turn() {
    Scenario::running()
        .when(|s| s.follow_up(1))
        .when(|s| s.follow_up(2))
        .then_queue(&[1, 2], &[])
        .observes(completes("t1"))
        .then_events(&["AgentSessionTurnCompletedEvent", "MessageDispatchedEvent"])
        .then_queue(&[1, 2], &[1])
        .observes(injected(1))
        .then_queue(&[2], &[])
        .observes(starts_with("t2", 1))
        .then_queue(&[2], &[])
        .observes(completes("t2"))
        .then_queue(&[2], &[2]);
}

#[test]
fn idle_session_sends_immediate_messages_first() {
    Scenario::in_status(S::WaitingForInput)
        .when(|s| s.follow_up(1))
        .when(|s| s.steer(2))
        .when(|s| s.steer(3))
        .then_queue(&[2, 3, 1], &[])
        .observes(completes("t1"))
        .then_queue(&[2, 3, 1], &[2]);
}

#[test]
fn waiting_suspended_and_intermediate_sessions_keep_messages() {
    for status in [
        S::WaitingForInput,
        S::WaitingForApproval,
        S::Paused,
        S::Pausing,
        S::Resuming,
        S::Interrupting,
        S::Cancelling,
        S::Queued,
    ] {
        Scenario::in_status(status)
            .when(|s| s.steer(1))
            .then_events(&["MessageEnqueuedEvent"])
            .then_queue(&[1], &[]);
    }
    Scenario::paused()
        .when(|s| s.follow_up(1))
        .when(|s| s.steer(2))
        .when(|s| s.resume())
        .confirms(C::Resume)
        .then_queue(&[2, 1], &[2]);
}

#[test]
fn ended_sessions_accept_no_messages() {
    for status in [S::Completed, S::Cancelled, S::Failed, S::ContextExhausted] {
        Scenario::in_status(status).refuses("invalid-transition", |s| s.steer(1));
    }
}

#[test]
fn completed_sessions_cancel_open_messages_and_failed_keep_them() {
    Scenario::running()
        .when(|s| s.follow_up(1))
        .when(|s| s.cancel())
        .confirms(C::Stop)
        .then_event("MessageCancelledEvent")
        .then_queue(&[], &[]);
    Scenario::running()
        .when(|s| s.follow_up(1))
        .when(|s| s.die(true))
        .then_status(S::Failed)
        .then_queue(&[1], &[])
        .when(|s| s.retry())
        .wakes()
        .observes(starts("t2"))
        .observes(completes("t2"))
        .then_queue(&[1], &[1]);
}

#[test]
fn messages_pending_at_an_interrupt_wait_for_their_owner() {
    let held = || {
        Scenario::running()
            .when(|s| s.follow_up(1))
            .when(|s| s.follow_up(2))
            .when(|s| s.interrupt())
            .then_event("MessagesHeldEvent")
            .confirms(C::Interrupt)
            .then_status(S::Interrupted)
            .then_queue(&[1, 2], &[])
    };
    held().when(|s| s.steer(3)).then_event("MessagesReleasedEvent").then_queue(&[3, 1, 2], &[3]);
    held()
        .when(|s| s.commit(|c, _| c.queue.promote(message(2))))
        .then_event("MessagesReleasedEvent")
        .then_queue(&[2, 1], &[2]);
    held()
        .when(|s| s.commit(|c, _| c.queue.release(message(1))))
        .then_event("MessagesReleasedEvent")
        .then_queue(&[1, 2], &[1]);
    held()
        .when(|s| s.commit(|c, _| Ok::<_, pilothouse_domain::queue::QueueError>(c.clear_queue())))
        .then_queue(&[], &[])
        .when(|s| s.steer(4))
        .then_queue(&[4], &[4]);
}

/// A message that the owner sends after the interrupt was requested is not held.
#[test]
fn message_sent_during_an_interrupt_is_not_held() {
    Scenario::running()
        .when(|s| s.follow_up(1))
        .when(|s| s.interrupt())
        .when(|s| s.steer(2))
        .then_events(&["MessageEnqueuedEvent", "MessagesReleasedEvent"])
        .confirms(C::Interrupt)
        .then_events(&["SessionInterruptedEvent", "MessageDispatchedEvent"])
        .then_queue(&[2, 1], &[2]);
}

#[test]
fn interrupt_enforced_by_the_runtime_holds_messages_too() {
    Scenario::running()
        .when(|s| s.follow_up(1))
        .when(|s| s.steer(2))
        .when(|s| s.interrupt())
        .when(|s| s.clock(30, ProcessState::Alive))
        .then_event("SessionCommandReissuedEvent")
        .when(|s| s.clock(30, ProcessState::Alive))
        .then_event("SessionRunStopOrderedEvent")
        .when(|s| s.die(true))
        .then_event("MessageReturnedEvent")
        .then_no_event("SessionSlotWantedEvent")
        .then_hibernated(S::Interrupted)
        .then_queue(&[2, 1], &[]);
}

#[test]
fn sent_messages_cannot_be_changed() {
    let content = || MessageContent::parse("other words").unwrap();
    Scenario::running()
        .when(|s| s.steer(1))
        .refuses("already-sent", |s| s.commit(|c, _| c.cancel_message(message(1))))
        .refuses("already-sent", |s| s.commit(|c, _| c.queue.edit(message(1), content())))
        .refuses("already-sent", |s| s.commit(|c, _| c.queue.move_to(message(1), 0)))
        .refuses("already-sent", |s| s.commit(|c, _| c.queue.promote(message(1))))
        .refuses("already-sent", |s| s.commit(|c, _| c.queue.release(message(1))))
        .refuses("not-found", |s| s.commit(|c, _| c.cancel_message(message(2))));
}

#[test]
fn pending_messages_can_be_changed() {
    let content = || MessageContent::parse("other words").unwrap();
    Scenario::running()
        .when(|s| s.follow_up(1))
        .when(|s| s.follow_up(2))
        .when(|s| s.follow_up(3))
        .when(|s| s.commit(|c, _| c.queue.move_to(message(3), 0)))
        .then_queue(&[3, 1, 2], &[])
        .when(|s| s.commit(|c, _| c.queue.move_to(message(3), 9)))
        .then_queue(&[1, 2, 3], &[])
        .when(|s| s.commit(|c, _| c.queue.edit(message(2), content())))
        .then(|s| s.conv.queue.get(message(2)).unwrap().content.clone(), &content())
        .when(|s| s.commit(|c, _| c.cancel_message(message(1))))
        .then(closed, &vec![(message(1), MessageStatus::Cancelled)])
        .then_queue(&[2, 3], &[])
        .refuses("not-found", |s| s.commit(|c, _| c.queue.promote(message(1))))
        .when(|s| s.commit(|c, _| c.queue.promote(message(3))))
        .then_events(&["MessagePromotedToImmediateEvent", "MessageDispatchedEvent"])
        .then_queue(&[3, 2], &[3]);
    Scenario::paused()
        .when(|s| s.steer(1))
        .refuses("already-immediate", |s| s.commit(|c, _| c.queue.promote(message(1))));
}

fn image(digit: &str) -> MessageImage {
    MessageImage {
        media_type: ImageType::Png,
        sha256: ContentHash::parse(digit.repeat(64)).unwrap(),
        size_bytes: 70,
        session_id: AgentSessionId::new(Uuid::from_u128(5)),
    }
}

fn with_image(digit: &str) -> NewMessage {
    NewMessage { images: vec![image(digit)], ..new_message(1, "look") }
}

#[test]
fn images_stay_with_their_message_until_its_delivery() {
    let edited = MessageContent::parse("look again").unwrap();
    let shown = |s: &Scenario| {
        let images = |event: &SessionEvent| match event {
            SessionEvent::MessageEnqueued { images, .. } | SessionEvent::MessageDelivered { images, .. } => {
                Some(images.clone())
            }
            _ => None,
        };
        s.last.iter().find_map(images)
    };
    Scenario::running()
        .when(|s| s.commit(|c, ctx| c.enqueue(with_image("a"), ctx)))
        .then(shown, &Some(vec![image("a")]))
        .when(|s| s.commit(|c, _| c.queue.edit(message(1), edited.clone())))
        .then(|s| s.conv.queue.get(message(1)).unwrap().images.clone(), &vec![image("a")])
        .observes(completes("t1"))
        .observes(starts_with("t2", 1))
        .then(shown, &Some(vec![image("a")]))
        .then(|s| s.conv.closed_messages.last().unwrap().images.clone(), &vec![image("a")]);
}

#[test]
fn message_with_other_images_is_another_message() {
    Scenario::paused()
        .when(|s| s.commit(|c, ctx| c.enqueue(with_image("a"), ctx)))
        .when(|s| s.commit(|c, ctx| c.enqueue(with_image("a"), ctx)))
        .then_events(&[])
        .refuses("idempotency-mismatch", |s| s.commit(|c, ctx| c.enqueue(with_image("b"), ctx)));
}

#[test]
fn references_to_images_count_for_the_size_of_the_queue() {
    let mut scenario = Scenario::paused();
    let full =
        |n: u128| NewMessage { message_id: message(n), images: vec![image("a"); 100], ..with_image("a") };
    for n in 1..=8 {
        scenario = scenario.when(|s| s.commit(|c, ctx| c.enqueue(full(n), ctx)));
    }
    scenario.refuses("queue-full", |s| s.commit(|c, ctx| c.enqueue(full(9), ctx)));
}

#[test]
fn duplicate_message_is_accepted_once() {
    Scenario::paused()
        .when(|s| s.steer(1))
        .when(|s| s.steer(1))
        .then_events(&[])
        .then_queue(&[1], &[])
        .refuses("idempotency-mismatch", |s| s.send(1, MessagePriority::Immediate, Some("t1")));
}

#[test]
fn full_queue_accepts_no_more() {
    let mut scenario = Scenario::paused();
    for n in 0..100 {
        scenario = scenario.when(|s| s.follow_up(n));
    }
    scenario.refuses("queue-full", |s| s.follow_up(100));
}

#[test]
fn steering_for_an_ended_turn_is_not_sent() {
    let to_turn_1 = |s: &mut Scenario| s.send(1, MessagePriority::Immediate, Some("t1"));
    Scenario::running().when(to_turn_1).then_queue(&[1], &[1]);
    Scenario::idle().refuses("turn-over", to_turn_1);
    Scenario::idle().observes(starts("t2")).refuses("turn-over", to_turn_1);
    // The turn ended before the message could be sent.
    Scenario::in_status(S::WaitingForInput)
        .when(to_turn_1)
        .observes(completes("t1"))
        .then_event("MessageCancelledEvent")
        .then_queue(&[], &[]);
    // The turn ended before the sidecar received the message.
    let scenario = Scenario::running().when(to_turn_1);
    let command = dispatched(&scenario);
    scenario
        .observes(AgentFact::CommandRefused { command, code: "turn-over".to_owned(), message: String::new() })
        .then_event("MessageCancelledEvent")
        .then_queue(&[], &[]);
}

#[test]
fn message_refused_by_the_sidecar_waits_for_its_owner() {
    let scenario = Scenario::running().when(|s| s.steer(1));
    let command = dispatched(&scenario);
    let refused =
        |code: &str| AgentFact::CommandRefused { command, code: code.to_owned(), message: String::new() };
    scenario
        .observes(refused("busy"))
        .then_events(&["SessionCommandRefusedEvent", "MessageReturnedEvent", "MessagesHeldEvent"])
        .then_queue(&[1], &[])
        .observes(refused("turn-over"))
        .then_queue(&[1], &[]);
}

#[test]
fn message_that_the_agent_may_have_is_not_sent_again() {
    let scenario = Scenario::running().when(|s| s.steer(1));
    let command = dispatched(&scenario);
    let code = "delivery-uncertain".to_owned();
    let scenario = scenario
        .observes(AgentFact::CommandRefused { command, code, message: String::new() })
        .then_events(&["SessionCommandRefusedEvent", "MessageDeliveryUncertainEvent"])
        .observes(completes("t1"));
    let [message] = scenario.conv.queue.messages() else { panic!("one message") };
    assert!(message.delivery_uncertain && !message.sent);
}

/// A late refusal of a delivered message removes no other message.
#[test]
fn a_late_refusal_drops_no_other_message() {
    let scenario = Scenario::idle().when(|s| s.steer(1));
    let command = dispatched(&scenario);
    scenario
        .when(|s| s.follow_up(2))
        .observes(injected(1))
        .observes(AgentFact::CommandRefused { command, code: "turn-over".to_owned(), message: String::new() })
        .then_no_event("MessageCancelledEvent");
}

#[test]
fn message_is_delivered_whatever_the_outcome_of_its_turn() {
    Scenario::running()
        .when(|s| s.steer(1))
        .when(|s| s.interrupt())
        .observes(completes("t1"))
        .observes(starts_with("t2", 1))
        .then_taken(FactOutcome::Deferred)
        .then_events(&["MessageDeliveredEvent"])
        .confirms(C::Interrupt)
        .then_status(S::Interrupted)
        .when(|s| s.steer(2))
        .then_queue(&[2], &[2]);
}

/// A message that reached the running turn does not block the next one.
#[test]
fn message_injected_during_an_interrupt_blocks_nothing() {
    Scenario::running()
        .when(|s| s.steer(1))
        .when(|s| s.interrupt())
        .observes(injected(1))
        .confirms(C::Interrupt)
        .when(|s| s.steer(2))
        .then_queue(&[2], &[2]);
}

#[test]
fn message_whose_turn_began_during_an_interrupt_blocks_nothing() {
    Scenario::launching()
        .observes(AgentFact::SidecarReady(crate::scenario::can_all()))
        .when(|s| s.steer(1))
        .when(Scenario::interrupt)
        .observes(starts("t1"))
        .observes(injected(1))
        .confirms(C::Interrupt)
        .then_status(S::Interrupted)
        .when(|s| s.steer(2))
        .then_queue(&[2], &[2]);
}

#[test]
fn crash_before_the_agent_leaves_the_message_uncertain() {
    let dead = |drained: bool| {
        Scenario::idle()
            .when(|s| s.steer(1))
            .observes(AgentFact::MessageInjecting(message(1)))
            .when(move |s| s.die(drained))
    };
    for drained in [true, false] {
        dead(drained)
            .then_event("MessageDeliveryUncertainEvent")
            .then_no_event("SessionSlotWantedEvent")
            .then_hibernated(S::Idle)
            .when(|s| s.follow_up(2))
            .wakes()
            .then_queue(&[1, 2], &[2]);
    }
    dead(true)
        .when(|s| s.commit(|c, _| c.queue.release(message(1))))
        .then_event("SessionSlotWantedEvent")
        .wakes()
        .then_queue(&[1], &[1]);
    // The agent had received it after all.
    dead(true)
        .observes_late(injected(1))
        .then_events(&["MessageDeliveredEvent"])
        .then_taken(FactOutcome::Applied)
        .then_queue(&[], &[]);
}

#[test]
fn messages_a_dead_run_had_not_received_go_to_the_next_run() {
    Scenario::idle()
        .when(|s| s.steer(1))
        .when(|s| s.die(true))
        .then_event("MessageReturnedEvent")
        .then_event("SessionSlotWantedEvent")
        .wakes()
        .then_events(&["SessionRunReadyEvent", "MessageDispatchedEvent"])
        .then_queue(&[1], &[1]);
    // If envelopes are missing, the delivery is uncertain.
    Scenario::idle().when(|s| s.steer(1)).when(|s| s.die(false)).then_event("MessageDeliveryUncertainEvent");
}

#[test]
fn run_that_is_no_longer_needed_is_not_started() {
    let mut scenario = Scenario::idle().when(|s| s.die(true));
    scenario.pool = {
        let mut busy = Scenario::launching();
        busy.conv = scenario.conv.clone();
        // The only slot is in use.
        let json = serde_json::to_string(&busy.pool).unwrap();
        let id = busy.pool.leases().keys().next().unwrap().to_string();
        serde_json::from_str(&json.replace(&id, &message(99).to_string())).unwrap()
    };
    scenario
        .when(|s| s.follow_up(1))
        .then_events(&["MessageEnqueuedEvent", "SessionSlotWantedEvent", "SessionPoolExhaustedEvent"])
        .when(|s| s.commit(|c, _| c.cancel_message(message(1))))
        .then(|s| s.conv.session.slot_wanted(), &None);
}

fn running_that_can(can: Capabilities) -> Scenario {
    Scenario::launching().observes(AgentFact::SidecarReady(can)).observes(starts("t1"))
}

#[test]
fn immediate_message_waits_for_turn_end_without_steering() {
    let can = Capabilities { steer_mid_turn: false, ..can_all() };
    running_that_can(can)
        .when(|s| s.follow_up(1))
        .when(|s| s.steer(2))
        .then_events(&["MessageEnqueuedEvent", "SessionCapabilityMissingEvent"])
        .then_queue(&[2, 1], &[])
        .when(|s| s.steer(3))
        .then_events(&["MessageEnqueuedEvent"])
        .refuses("not-supported", |s| s.send(4, MessagePriority::Immediate, Some("t1")))
        .observes(completes("t1"))
        .then_events(&["AgentSessionTurnCompletedEvent", "MessageDispatchedEvent"])
        .then_queue(&[2, 3, 1], &[2]);
}

#[test]
fn missing_agent_ability_is_reported_once() {
    let can = Capabilities { plans: false, context_usage: false, ..can_all() };
    let scenario = Scenario::launching()
        .observes(AgentFact::SidecarReady(can))
        .then_event("SessionCapabilityMissingEvent");
    let scenario = scenario.observes(AgentFact::SidecarReady(can)).then_events(&[]);
    let scenario = scenario.observes(starts("t1")).observes(completes("t1"));
    let scenario = scenario.then_events(&["SessionCapabilityMissingEvent", "AgentSessionTurnCompletedEvent"]);
    scenario
        .observes(starts("t2"))
        .observes(completes("t2"))
        .then_events(&["AgentSessionTurnCompletedEvent"]);
    running_that_can(can_all()).observes(completes("t1")).then_events(&["AgentSessionTurnCompletedEvent"]);
}

#[test]
fn session_whose_runs_end_repeatedly_fails_with_their_reason() {
    let mut scenario = Scenario::idle().when(|s| s.die(true)).when(|s| s.steer(1));
    for _ in 0..3 {
        scenario = scenario.wakes().observes(ends(true)).when(|s| s.die(true));
    }
    let why = |scenario: &Scenario| {
        let failure = scenario.conv.session.failure().and_then(|failure| failure.message.clone());
        failure.is_some_and(|message| message.ends_with("The last one said: max_turns"))
    };
    scenario.then_status(S::Failed).then(why, &true);
}
