//! Auto-continue (S0 8.5, 8.10; decision 36).

use pilothouse_domain::conversation::FactOutcome;
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as Command, ProcessState,
};
use pilothouse_domain::value::{
    AutoContinueConfig, AutoContinueEnd, MessagePriority, MessageSource, SessionOutcome,
};
use pilothouse_domain::{CommandId, SessionEvent};
use uuid::Uuid;

use crate::scenario::{Scenario, asks, completes, criterion, ends, output, starts, starts_with, turn, used};

fn count(scenario: &Scenario) -> u32 {
    scenario.conv.session.auto_continue().unwrap().current_continuation_count
}

fn validating(scenario: &Scenario) -> bool {
    scenario.conv.session.is_validating()
}

fn pending_review(scenario: &Scenario) -> bool {
    scenario.conv.session.has_pending_review()
}

fn turns(scenario: &Scenario) -> u32 {
    scenario.conv.session.metrics().turn_count
}

fn completes_with(id: &str, files: u32) -> AgentFact {
    AgentFact::TurnCompleted {
        turn: turn(id),
        output: Some(output(files)),
        outcome: SessionOutcome::Completed,
    }
}

/// Why the loop ended in the latest step.
fn end(scenario: &Scenario) -> Option<AutoContinueEnd> {
    scenario.last.iter().find_map(|event| match event {
        SessionEvent::AutoContinueStopped { cause, .. } => Some(*cause),
        _ => None,
    })
}

/// Starts turn `id` with the message that the latest step sent.
fn goes_on(scenario: Scenario, id: &str) -> Scenario {
    let message = scenario.last.iter().find_map(|event| match event {
        SessionEvent::MessageDispatched { message_id, .. } => Some(*message_id),
        _ => None,
    });
    let message = message.expect("a message was sent");
    scenario.begins_turn_with(id, message)
}

#[test]
fn five_continuations_are_the_default() {
    let config = serde_json::json!({ "validationCriteria": [] });
    let config: AutoContinueConfig = serde_json::from_value(config).unwrap();
    assert!(config.is_enabled);
    assert_eq!((config.max_continuations, config.current_continuation_count), (5, 0));
    let negative = serde_json::json!({ "validationCriteria": [], "currentContinuationCount": -1 });
    assert!(serde_json::from_value::<AutoContinueConfig>(negative).is_err());
}

#[test]
fn turn_ends_without_validation_when_auto_continue_is_off() {
    Scenario::looping_disabled()
        .observes(completes_with("t1", 3))
        .then_no_event("SessionValidationRequestedEvent")
        .then_event("AgentSessionOutputReadyEvent")
        .then_status(S::Idle)
        .then(validating, &false)
        .then(pending_review, &true)
        .then(turns, &1)
        .then(count, &0)
        .then_queue(&[], &[]);
}

#[test]
fn a_turn_ends_when_its_criteria_are_met() {
    Scenario::looping(5)
        .observes(completes_with("t1", 3))
        .then_events(&["SessionValidationRequestedEvent"])
        .then_status(S::Running)
        .then(validating, &true)
        .then(turns, &0)
        .refuses("invalid-transition", Scenario::close)
        .validates(true)
        .then_events(&["SessionValidationPassedEvent", "AgentSessionOutputReadyEvent"])
        .then_status(S::Idle)
        .then(validating, &false)
        .then(pending_review, &true)
        .then(turns, &1)
        .then(count, &0);
}

#[test]
fn unmet_criteria_start_the_next_turn() {
    let scenario = Scenario::looping(5)
        .observes(completes("t1"))
        .validates(false)
        .then_events(&["SessionValidationFailedEvent", "MessageEnqueuedEvent", "MessageDispatchedEvent"])
        .then_status(S::Running)
        .then(count, &1);
    let message = &scenario.conv.queue.messages()[0];
    assert_eq!((message.source, message.priority), (MessageSource::System, MessagePriority::Immediate));
    assert_eq!(
        message.content.as_str(),
        "Validation failed: TestsPassing: `make test` failed with exit code 2. Continue working."
    );
    goes_on(scenario, "t2")
        .then_status(S::Running)
        .then(|s| s.conv.session.turn().map(|t| t.id.clone()), &Some(turn("t2")))
        .then_queue(&[], &[])
        .observes(completes("t2"))
        .then_events(&["SessionValidationRequestedEvent"])
        .validates(true)
        .then_status(S::Idle)
        .then(turns, &2)
        .then(count, &1);
}

/// Output of a turn that does not meet the criteria is kept for the turn that does.
#[test]
fn output_goes_to_review_when_the_criteria_are_met() {
    let scenario =
        Scenario::looping(5).observes(completes_with("t1", 3)).validates(false).then(pending_review, &false);
    goes_on(scenario, "t2")
        .observes(completes("t2"))
        .validates(true)
        .then_event("AgentSessionOutputReadyEvent")
        .then(|s| s.conv.session.output().unwrap().output.files_changed, &3)
        .then(pending_review, &true);
}

#[test]
fn auto_continue_stops_at_its_limit_and_notifies_the_owner() {
    let scenario = Scenario::looping(1).observes(completes("t1")).validates(false);
    goes_on(scenario, "t2")
        .observes(completes_with("t2", 4))
        .validates(false)
        .then_events(&["SessionAutoContinueStoppedEvent", "AgentSessionTurnCompletedEvent"])
        .then(end, &Some(AutoContinueEnd::MaxContinuations))
        .then_status(S::Idle)
        .then(pending_review, &false)
        .then(|s| s.conv.session.output().unwrap().output.files_changed, &4)
        .then(count, &1)
        .when(Scenario::close)
        .then_status(S::Completed);
}

#[test]
fn retry_restarts_the_count() {
    let scenario = Scenario::looping(1).observes(completes("t1")).validates(false);
    goes_on(scenario, "t2")
        .observes(ends(true))
        .then_status(S::Failed)
        .when(|s| s.die(true))
        .when(Scenario::retry)
        .then(count, &0)
        .wakes()
        .observes(starts("t3"))
        .observes(completes("t3"))
        .validates(false)
        .then_event("SessionValidationFailedEvent")
        .then(count, &1);
}

/// The owner's message is delivered first; the turn that it starts is validated at its end.
#[test]
fn message_takes_precedence_over_validation() {
    Scenario::looping(5)
        .when(|s| s.follow_up(1))
        .observes(completes("t1"))
        .then_events(&[
            "SessionValidationAbandonedEvent",
            "AgentSessionTurnCompletedEvent",
            "MessageDispatchedEvent",
        ])
        .then_status(S::Idle)
        .observes(starts_with("t2", 1))
        .observes(completes("t2"))
        .then_events(&["SessionValidationRequestedEvent"]);
    let scenario = Scenario::looping(5).observes(completes_with("t1", 1));
    let result = crate::scenario::validated(&scenario, false);
    scenario
        .when(|s| s.steer(1))
        .then_events(&[
            "MessageEnqueuedEvent",
            "SessionValidationAbandonedEvent",
            "AgentSessionOutputReadyEvent",
            "MessageDispatchedEvent",
        ])
        .then_status(S::Idle)
        .refuses("turn-starting", |s| s.approve(s.output_id()))
        .observes(result)
        .then_ignored("stale-ack")
        .then(count, &0)
        .observes(starts_with("t2", 1))
        .then_status(S::Running);
}

#[test]
fn only_the_requested_validation_counts() {
    let stale = AgentFact::Validated {
        command: CommandId::new(Uuid::from_u128(99_999)),
        results: vec![criterion(true)],
    };
    Scenario::looping(5)
        .observes(stale.clone())
        .then_ignored("stale-ack")
        .observes(completes("t1"))
        .observes(stale)
        .then_ignored("stale-ack")
        .then(validating, &true)
        .observes(completes("t1"))
        .then_ignored("RecordTurnCompleted does not apply while Running")
        .observes(asks("q1"))
        .then_ignored("RecordUserQuestionAsked does not apply while Running")
        .then(validating, &true);
}

/// The turn had already ended (decision 17): an interrupt ends the loop, and the turn counts.
#[test]
fn an_interrupt_ends_the_validation() {
    let scenario = Scenario::looping(5).observes(completes_with("t1", 2));
    let late = crate::scenario::validated(&scenario, false);
    scenario
        .when(Scenario::interrupt)
        .then_status(S::Interrupting)
        .observes(late)
        .then_ignored("stale-ack")
        .confirms(Command::Interrupt)
        .then_status(S::Idle)
        .then_event("AgentSessionOutputReadyEvent")
        .then(turns, &1)
        .then(count, &0);
}

/// If the session is paused during a validation, the criteria are checked again after the resume.
#[test]
fn pause_defers_the_validation() {
    Scenario::looping(5)
        .observes(completes("t1"))
        .when(Scenario::pause)
        .confirms(Command::Pause)
        .then_status(S::Paused)
        .then(validating, &false)
        .when(Scenario::resume)
        .confirms(Command::Resume)
        .then_event("SessionValidationRequestedEvent")
        .then_status(S::Running)
        .validates(true)
        .then_status(S::Idle);
}

#[test]
fn a_cancellation_ends_the_validation() {
    Scenario::looping(5)
        .observes(completes("t1"))
        .when(Scenario::cancel)
        .confirms(Command::Stop)
        .then_status(S::Cancelled)
        .then(validating, &false);
}

/// The turn was over, so the session does not fail with its sidecar (decisions 14, 17). The owner is notified.
#[test]
fn sidecar_death_during_validation_fails_nothing() {
    Scenario::looping(5)
        .observes(completes_with("t1", 1))
        .when(|s| s.die(true))
        .then_hibernated(S::Idle)
        .then(end, &Some(AutoContinueEnd::ValidationUnavailable))
        .then(pending_review, &true)
        .when(|s| s.follow_up(1))
        .then_event("SessionSlotWantedEvent")
        .wakes()
        .then_event("MessageDispatchedEvent");
}

/// The message to continue survives the sidecar that should have delivered it.
#[test]
fn sidecar_death_before_the_next_turn_starts_a_new_run() {
    Scenario::looping(5)
        .observes(completes("t1"))
        .validates(false)
        .then_status(S::Running)
        .when(|s| s.die(true))
        .then_status(S::Idle)
        .then_event("SessionSlotWantedEvent")
        .wakes()
        .then_event("MessageDispatchedEvent");
}

/// The sidecar can still check the criteria after its agent has ended. Continuing needs a new run.
#[test]
fn ended_agent_is_validated_too() {
    Scenario::looping(5)
        .observes(completes_with("t1", 1))
        .observes(ends(false))
        .then(validating, &true)
        .then(|s| s.conv.session.is_live(), &true);
    Scenario::looping(5)
        .observes(ends(false))
        .then_events(&["SessionValidationRequestedEvent"])
        .validates(true)
        .then_events(&[
            "SessionValidationPassedEvent",
            "AgentSessionTurnCompletedEvent",
            "SessionRunStopOrderedEvent",
        ])
        .then_status(S::Idle);
    Scenario::looping(5)
        .observes(ends(false))
        .validates(false)
        .then_events(&["SessionValidationFailedEvent", "SessionRunStopOrderedEvent", "MessageEnqueuedEvent"])
        .when(|s| s.die(true))
        .then_event("SessionSlotWantedEvent")
        .wakes()
        .then_event("MessageDispatchedEvent");
}

/// No turn runs before the continuation, so the process takes nothing with it.
#[test]
fn continuation_outlasts_a_pause_and_its_process() {
    for end_of_turn in [completes("t1"), ends(false)] {
        Scenario::looping(5)
            .observes(end_of_turn)
            .validates(false)
            .when(Scenario::pause)
            .then_status(S::Pausing)
            .when(|s| s.die(true))
            .then_hibernated(S::Paused)
            .when(Scenario::resume)
            .wakes()
            .confirms(Command::Resume)
            .then_event("MessageDispatchedEvent")
            .then_status(S::Running);
    }
}

#[test]
fn turn_that_began_after_the_pause_fails_with_its_process() {
    Scenario::looping(5)
        .observes(completes("t1"))
        .validates(false)
        .when(Scenario::pause)
        .observes(starts("t2"))
        .then_taken(FactOutcome::Deferred)
        .when(|s| s.die(true))
        .then_status(S::Failed);
}

/// The start of the next turn ended the wait for the continuation, also if its process is gone.
#[test]
fn turn_that_ended_in_a_pause_counts_after_the_resume() {
    Scenario::looping(5)
        .observes(completes("t1"))
        .validates(false)
        .when(Scenario::pause)
        .observes(starts("t2"))
        .observes(completes("t2"))
        .when(|s| s.die(true))
        .then_hibernated(S::Paused)
        .when(Scenario::resume)
        .wakes()
        .confirms(Command::Resume)
        .then_event("AgentSessionTurnCompletedEvent")
        .then(turns, &2);
}

/// An agent's error after its turn does not fail the turn.
#[test]
fn an_error_after_the_turn_does_not_end_the_loop() {
    let scenario = Scenario::looping(5).observes(completes("t1"));
    let result = crate::scenario::validated(&scenario, true);
    scenario
        .observes(ends(true))
        .then_status(S::Running)
        .observes(result)
        .then_status(S::Idle)
        .then_event("SessionRunStopOrderedEvent");
}

#[test]
fn a_spent_budget_ends_the_loop() {
    let scenario = Scenario::looping(5).observes(completes("t1"));
    let result = crate::scenario::validated(&scenario, false);
    scenario
        .observes(used("1"))
        .then(end, &Some(AutoContinueEnd::BudgetExhausted))
        .then_status(S::Idle)
        .observes(result)
        .then_ignored("stale-ack");
}

/// A command that is not received is sent once more, then the process is stopped (decision 12).
#[test]
fn unreceived_validation_is_resent_once_then_stopped() {
    Scenario::looping(5)
        .observes(completes("t1"))
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["SessionCommandReissuedEvent"])
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["SessionRunStopOrderedEvent"])
        .when(|s| s.die(true))
        .then_hibernated(S::Idle)
        .then(end, &Some(AutoContinueEnd::ValidationUnavailable));
}

/// The sidecar enforces the time limit; the control plane waits one minute longer.
#[test]
fn a_validation_without_a_result_ends_the_loop() {
    let scenario = Scenario::looping(5).observes(completes("t1"));
    let AgentFact::Validated { command, .. } = crate::scenario::validated(&scenario, true) else { panic!() };
    scenario
        .observes(AgentFact::CommandReceived(command))
        .when(|s| s.clock_with_heartbeats(659))
        .then(validating, &true)
        .when(|s| s.clock_with_heartbeats(1))
        .then(end, &Some(AutoContinueEnd::ValidationUnavailable))
        .then_status(S::Idle)
        .then(|s| s.conv.session.is_live(), &true);
}

/// A sidecar that stops the validation early, or does not support it, passes nothing.
#[test]
fn aborted_validation_passes_nothing() {
    let ordered = |scenario: &Scenario| match crate::scenario::validated(scenario, true) {
        AgentFact::Validated { command, .. } => command,
        _ => panic!(),
    };
    let scenario = Scenario::looping(5).observes(completes("t1"));
    let command = ordered(&scenario);
    scenario
        .observes(AgentFact::Validated { command, results: Vec::new() })
        .then_taken(FactOutcome::Applied)
        .then(end, &Some(AutoContinueEnd::ValidationUnavailable))
        .then_status(S::Idle);
    let scenario = Scenario::looping(5).observes(completes("t1"));
    let command = ordered(&scenario);
    let refusal =
        AgentFact::CommandRefused { command, code: "invalid".to_owned(), message: "What?".to_owned() };
    scenario.observes(refusal).then(end, &Some(AutoContinueEnd::ValidationUnavailable)).then_status(S::Idle);
}

/// If the agent does not take the message to continue, the session becomes idle.
#[test]
fn refused_continuation_message_leaves_the_session_idle() {
    let scenario = Scenario::looping(5).observes(completes("t1")).validates(false);
    let command = scenario.last.iter().find_map(|event| match event {
        SessionEvent::MessageDispatched { command, .. } => Some(command.command_id),
        _ => None,
    });
    let refusal = AgentFact::CommandRefused {
        command: command.unwrap(),
        code: "not-supported".to_owned(),
        message: "No".to_owned(),
    };
    scenario.observes(refusal).then(end, &Some(AutoContinueEnd::NotDelivered)).then_status(S::Idle);
}

/// A turn that the agent starts without a message is validated at its end.
#[test]
fn agent_that_continues_on_its_own_is_validated_later() {
    Scenario::looping(5)
        .observes(completes("t1"))
        .observes(starts("t2"))
        .then_events(&[
            "SessionValidationAbandonedEvent",
            "AgentSessionTurnCompletedEvent",
            "AgentSessionTurnStartedEvent",
        ])
        .then_status(S::Running)
        .observes(completes("t2"))
        .then_events(&["SessionValidationRequestedEvent"]);
}

/// The state of the loop is stored with the session.
#[test]
fn validation_round_trips_through_storage() {
    let scenario = Scenario::looping(5).observes(completes_with("t1", 1)).observes(ends(false));
    let stored = serde_json::to_string(&scenario.conv.session).unwrap();
    let loaded: pilothouse_domain::AgentSession = serde_json::from_str(&stored).unwrap();
    assert_eq!(loaded, scenario.conv.session);
    let _ = ProcessState::Alive;
}
