//! A process that ends before it received the resume (decision 14): the session wakes, as after an end during the pause.

use pilothouse_domain::brake::{BrakeBehavior as B, HoldStage};
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as C, ProcessState as P,
};
use pilothouse_domain::value::FailureReason;

use crate::scenario::{Scenario, asks, completes, ends, starts, used};

/// The resume was sent, and the process ends before its sidecar received it.
fn lost() -> Scenario {
    Scenario::in_status(S::Resuming).when(|s| s.die(true))
}

fn failure(scenario: &Scenario) -> Option<FailureReason> {
    scenario.conv.session.failure().map(|failure| failure.reason)
}

#[test]
fn resume_that_no_sidecar_received_wakes_the_session() {
    lost()
        .then_events(&[
            "SessionRunEndedEvent",
            "SessionSlotWantedEvent",
            "SessionReleasedEvent",
            "SessionRunRequestedEvent",
            "SessionAllocatedEvent",
        ])
        .then_hibernated(S::Resuming)
        .then(|s| s.pool.leases().len(), &1)
        .wakes()
        .then_events(&["SessionRunReadyEvent", "SessionCommandReissuedEvent"])
        .confirms(C::Resume)
        // The turn ended with its process. A message from Pilothouse continues the work.
        .then_events(&["SessionResumedEvent", "MessageEnqueuedEvent", "MessageDispatchedEvent"])
        .observes(starts("t2"))
        .then_status(S::Running);
}

#[test]
fn received_resume_fails_with_its_process() {
    Scenario::in_status(S::Resuming)
        .receives()
        .when(|s| s.die(true))
        .then_status(S::Failed)
        .then(failure, &Some(FailureReason::InfrastructureError));
}

/// The rest of the spool may contain the acknowledgement, and more.
#[test]
fn resume_of_a_lost_spool_fails_with_its_process() {
    Scenario::in_status(S::Resuming).when(|s| s.die(false)).then_status(S::Failed);
    Scenario::in_status(S::Resuming).when(Scenario::lose).then_status(S::Failed);
}

#[test]
fn late_acknowledgements_do_not_confirm_the_next_resume() {
    let resuming = Scenario::in_status(S::Resuming);
    let first = resuming.pending_command();
    let scenario = resuming
        .when(|s| s.die(true))
        .observes_late(AgentFact::CommandReceived(first))
        .observes_late(AgentFact::CommandDone(C::Resume, first))
        .then_status(S::Resuming)
        .wakes();
    assert_ne!(scenario.pending_command(), first);
    scenario
        .observes(AgentFact::CommandDone(C::Resume, first))
        .then_ignored("stale-ack")
        .then_status(S::Resuming)
        // The sidecar has not received the new one either.
        .when(|s| s.die(true))
        .then_hibernated(S::Resuming)
        .wakes()
        .confirms(C::Resume)
        .then_status(S::Running);
}

#[test]
fn three_runs_that_end_before_the_resume_fail_the_session() {
    let scenario = lost().wakes().when(|s| s.die(true)).wakes().when(|s| s.die(true)).then_status(S::Failed);
    let message = scenario.conv.session.failure().unwrap().message.clone().unwrap();
    assert_eq!(message, "3 sidecars in a row ended before the agent resumed.");
}

#[test]
fn wake_for_a_resume_that_does_not_get_ready_fails() {
    lost().when(|s| s.die(true)).then_status(S::Failed);
    lost().when(|s| s.clock(300, P::Unknown)).then_status(S::Failed);
}

#[test]
fn brake_holds_a_session_whose_resume_was_lost() {
    let stage = |s: &Scenario| s.stage(1);
    for pulled in [
        Scenario::in_status(S::Resuming).when(|s| s.pull(1, B::Pause)).when(|s| s.die(true)),
        lost().when(|s| s.pull(1, B::Pause)).when(|s| s.die(true)),
    ] {
        pulled
            .then_hibernated(S::Paused)
            .then(stage, &HoldStage::Confirmed)
            .then(|s| s.pool.leases().len(), &0)
            .when(|s| s.release_brake(1))
            .then_status(S::Resuming)
            .wakes()
            .confirms(C::Resume)
            .then_status(S::Running);
    }
}

#[test]
fn cancelled_session_does_not_wake_for_its_resume() {
    Scenario::in_status(S::Resuming)
        .when(Scenario::cancel)
        .then_events(&["SessionCancelAcceptedEvent"])
        .when(|s| s.die(true))
        .then_no_event("SessionRunRequestedEvent")
        .then_status(S::Cancelled);
}

/// The run of the resume may never start, for example while no worker has room.
#[test]
fn cancel_does_not_wait_for_the_run_of_a_resume() {
    lost()
        .when(Scenario::cancel)
        .then_event("SessionCancelAcceptedEvent")
        .then_event("SessionResumeAbandonedEvent")
        .then_event("SessionRunStopOrderedEvent")
        .then_status(S::Cancelled)
        .when(|s| s.die(true))
        .then_status(S::Cancelled)
        .then(|s| s.pool.leases().len(), &0);
}

/// The third of these runs would fail a session that is not cancelled.
#[test]
fn accepted_cancel_outlasts_the_last_fruitless_run() {
    lost()
        .wakes()
        .when(|s| s.die(true))
        .wakes()
        .confirms(C::Resume)
        .when(Scenario::interrupt)
        .when(|s| s.steer(1))
        .when(Scenario::force_cancel)
        .when(|s| s.die(true))
        .then_no_event("AgentSessionFailedEvent")
        .then_status(S::Cancelled);
}

#[test]
fn spent_budget_abandons_a_lost_resume() {
    Scenario::in_status(S::Resuming)
        .observes(used("1000"))
        .when(|s| s.die(true))
        .then_event("SessionResumeAbandonedEvent")
        .then_no_event("SessionRunRequestedEvent")
        .then_hibernated(S::Paused);
}

/// The agent waits for its owner, so no process is needed before the answer.
#[test]
fn lost_resume_of_a_waiting_agent_starts_no_run() {
    Scenario::running()
        .observes(asks("q1"))
        .when(|s| s.pull(1, B::Pause))
        .confirms(C::Pause)
        .when(|s| s.release_brake(1))
        .then_status(S::Resuming)
        .when(|s| s.die(true))
        .then_events(&["SessionRunEndedEvent", "SessionResumedEvent", "SessionReleasedEvent"])
        .then_hibernated(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .then_status(S::Idle)
        .wakes()
        .then_event("MessageDispatchedEvent");
}

/// Decision 17 comes before decision 14: facts from before the death count.
#[test]
fn facts_from_before_a_lost_resume_count() {
    Scenario::in_status(S::Resuming)
        .observes(completes("t1"))
        .when(|s| s.die(true))
        .wakes()
        .confirms(C::Resume)
        .then_no_event("MessageEnqueuedEvent")
        .then_status(S::Idle);
    Scenario::in_status(S::Resuming)
        .observes(ends(true))
        .when(|s| s.die(true))
        .then(failure, &Some(FailureReason::AgentError));
}
