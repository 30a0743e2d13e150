//! Deadlines, dead processes and unreachable runs (decisions 9, 12 to 14).

use pilothouse_domain::Deadlines;
use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, Arrival, LifecycleCommand as C, ProcessState as P,
};
use pilothouse_domain::value::FailureReason;

use crate::scenario::{Scenario, asks, can_all, completes, ends, said, starts, starts_with, used};

#[test]
fn process_death_at_work_fails_the_session() {
    let at_work = [S::Running, S::Interrupting, S::Pausing].map(Scenario::in_status);
    for scenario in at_work.into_iter().chain([Scenario::in_status(S::Resuming).receives()]) {
        scenario
            .when(|s| s.die(true))
            .then_event("AgentSessionFailedEvent")
            .then_status(S::Failed)
            .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::InfrastructureError);
    }
    Scenario::in_status(S::Queued).when(|s| s.die(true)).then_status(S::Failed);
}

#[test]
fn process_death_at_rest_hibernates_the_session() {
    for status in [S::Idle, S::Interrupted, S::Paused, S::WaitingForInput, S::WaitingForApproval] {
        Scenario::in_status(status)
            .when(|s| s.die(true))
            .then_events(&["SessionRunEndedEvent", "SessionReleasedEvent"])
            .then_hibernated(status);
    }
    Scenario::in_status(S::Cancelling).when(|s| s.die(true)).then_status(S::Cancelled);
    for status in [S::Cancelled, S::Completed, S::Failed, S::ContextExhausted] {
        Scenario::in_status(status)
            .when(|s| s.die(true))
            .then_events(&["SessionRunEndedEvent", "SessionReleasedEvent"])
            .then_status(status);
    }
}

/// Decision 17 comes before decision 14: facts from before the death count.
#[test]
fn process_death_after_the_turn_fails_nothing() {
    for (status, rests) in [(S::Interrupting, S::Idle), (S::Pausing, S::Paused), (S::Resuming, S::Paused)] {
        Scenario::in_status(status)
            .receives()
            .observes(completes("t1"))
            .when(|s| s.die(true))
            .then_hibernated(rests);
        Scenario::in_status(status)
            .observes(ends(true))
            .when(|s| s.die(true))
            .then_status(S::Failed)
            .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::AgentError);
    }
}

#[test]
fn the_end_of_another_run_ends_nothing() {
    let scenario = Scenario::idle();
    let old = scenario.run();
    let scenario = scenario.when(|s| s.die(true)).when(|s| s.steer(1)).wakes().observes(starts_with("t2", 1));
    scenario
        .when(|s| s.commit(|c, ctx| c.run_ended(old, true, None, ctx)))
        .then_events(&[])
        .then_status(S::Running);
}

#[test]
fn unreceived_command_is_resent_once_then_enforced() {
    for (status, rests) in
        [(S::Interrupting, S::Interrupted), (S::Pausing, S::Paused), (S::Resuming, S::Paused)]
    {
        Scenario::in_status(status)
            .when(|s| s.clock_with_heartbeats(29))
            .then_events(&[])
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["SessionCommandReissuedEvent"])
            .when(|s| s.clock_with_heartbeats(30))
            .then_events(&["SessionRunStopOrderedEvent"])
            .then_status(status)
            .when(|s| s.die(true))
            .then_hibernated(rests);
    }
    Scenario::in_status(S::Cancelling)
        .when(|s| s.clock(30, P::Alive))
        .when(|s| s.clock(30, P::Alive))
        .when(|s| s.die(true))
        .then_status(S::Cancelled);
}

/// The rest of the spool is published before the runtime reports the end. The silence deadline bounds the wait.
#[test]
fn unreceived_command_of_a_dead_process_waits_for_its_exit() {
    for (status, then, unreported) in [
        (S::Interrupting, S::Failed, S::Failed),
        (S::Pausing, S::Failed, S::Failed),
        (S::Resuming, S::Resuming, S::Failed),
        (S::Cancelling, S::Cancelled, S::Cancelled),
    ] {
        let scenario =
            Scenario::in_status(status).when(|s| s.clock(30, P::Dead)).then_events(&[]).then_status(status);
        scenario.clone().when(|s| s.die(true)).then_event("SessionRunEndedEvent").then_status(then);
        scenario
            .when(|s| s.clock(60, P::Dead))
            .then_events(&["SessionRunStopOrderedEvent"])
            .when(|s| s.clock(90, P::Dead))
            .then_event("SessionRunEndedEvent")
            .then_status(unreported);
    }
}

#[test]
fn unfinished_request_is_enforced_and_a_late_done_counts() {
    for (status, kind, then) in
        [(S::Interrupting, C::Interrupt, S::Interrupted), (S::Cancelling, C::Stop, S::Cancelled)]
    {
        let scenario = Scenario::in_status(status);
        let command = scenario.pending_command();
        let scenario = scenario
            .observes(AgentFact::CommandReceived(command))
            .when(|s| s.clock_with_heartbeats(59))
            .then_events(&[])
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["SessionRunStopOrderedEvent"]);
        scenario.clone().when(|s| s.die(true)).then_status(then);
        scenario
            .observes(AgentFact::CommandDone(kind, command))
            .then_status(then)
            .when(|s| s.die(true))
            .then_status(then);
    }
}

/// Decision 16: a cancellation does not wait for a late pause or resume.
#[test]
fn accepted_cancel_of_a_late_request_ends_the_process() {
    for status in [S::Pausing, S::Resuming] {
        Scenario::in_status(status)
            .receives()
            .when(|s| s.clock_with_heartbeats(40))
            .when(Scenario::cancel)
            .then_events(&["SessionCancelAcceptedEvent"])
            .when(|s| s.clock_with_heartbeats(59))
            .then_events(&[])
            .then_status(status)
            // Repeating it does not extend the time.
            .when(Scenario::cancel)
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["SessionRunStopOrderedEvent"])
            .when(|s| s.die(true))
            .then_event("SessionCancelledEvent")
            .then_no_event("AgentSessionFailedEvent")
            .then_status(S::Cancelled);
    }
}

#[test]
fn cancel_does_not_extend_the_time_that_a_brake_allows() {
    Scenario::in_status(S::Pausing)
        .receives()
        .when(|s| s.pull(1, BrakeBehavior::Pause))
        .when(|s| s.clock_with_heartbeats(50))
        .when(Scenario::cancel)
        .when(|s| s.clock_with_heartbeats(10))
        .then_event("SessionRunStopOrderedEvent")
        .when(|s| s.die(true))
        .then_status(S::Cancelled);
}

#[test]
fn a_pause_that_takes_long_only_notifies() {
    for (status, kind, then) in [(S::Pausing, C::Pause, S::Paused), (S::Resuming, C::Resume, S::Running)] {
        let scenario = Scenario::in_status(status);
        let command = scenario.pending_command();
        scenario
            .observes(AgentFact::CommandReceived(command))
            .when(|s| s.clock_with_heartbeats(15 * 60))
            .then_events(&["SessionCommandLateEvent", "SessionCommandReissuedEvent"])
            .when(|s| s.clock_with_heartbeats(10 * 60))
            .then_events(&[])
            // The owner is notified once. The command is sent again, because the acknowledgement may have been lost.
            .when(|s| s.clock_with_heartbeats(60 * 60))
            .then_events(&["SessionCommandReissuedEvent"])
            .then_status(status)
            .observes(AgentFact::CommandDone(kind, command))
            .then_status(then);
    }
}

/// Decision 23: a launch without capacity waits. Once there is capacity it has five minutes.
#[test]
fn launch_deadline_starts_when_it_has_a_place() {
    Scenario::launching()
        .when(|s| s.clock(300, P::Waiting))
        .then_events(&[])
        .then_status(S::Queued)
        .when(|s| s.clock(3600, P::Waiting))
        .then_status(S::Queued)
        .then(|s| s.conv.session.run().unwrap().unplaced_at.is_some(), &true)
        .when(|s| s.clock(300, P::Alive))
        .then_status(S::Queued)
        .then(|s| s.conv.session.run().unwrap().unplaced_at, &None)
        .when(|s| s.clock(299, P::Alive))
        .then_status(S::Queued)
        .when(|s| s.clock(1, P::Alive))
        .then_status(S::Failed);
    Scenario::launching()
        .when(|s| s.clock(300, P::Waiting))
        .when(|s| s.clock(300, P::Dead))
        .then_status(S::Failed);
}

#[test]
fn slow_launch_fails() {
    Scenario::launching()
        .when(|s| s.clock(5 * 60 - 1, P::Unknown))
        .then_events(&[])
        .when(|s| s.clock(1, P::Alive))
        .then_events(&["AgentSessionFailedEvent", "SessionRunStopOrderedEvent"])
        .then_status(S::Failed)
        .observes(AgentFact::SidecarReady(can_all()))
        .then_status(S::Failed);
}

#[test]
fn slow_stop_is_enforced() {
    Scenario::idle()
        .when(|s| s.close())
        .then_event("SessionRunStopOrderedEvent")
        .when(|s| s.clock(59, P::Alive))
        .then_events(&[])
        .when(|s| s.clock(1, P::Alive))
        .then_events(&["SessionRunStopOrderedEvent"])
        .when(|s| s.clock(90, P::Dead))
        .then_event("SessionRunEndedEvent");
}

#[test]
fn silent_run_without_a_process_has_ended() {
    Scenario::running()
        .when(|s| s.clock_with_heartbeats(89))
        .when(|s| s.clock_with_heartbeats(89))
        .then_status(S::Running)
        .when(|s| s.clock(90, P::Unknown))
        .then_events(&[
            "SessionRunStopOrderedEvent",
            "AgentSessionFailedEvent",
            "SessionRunEndedEvent",
            "SessionReleasedEvent",
        ])
        .then_status(S::Failed);
    // A process that just ended gets time to have its spool published.
    Scenario::idle()
        .when(|s| s.clock(90, P::Dead))
        .then_events(&["SessionRunStopOrderedEvent"])
        .when(|s| s.clock(90, P::Dead))
        .then_hibernated(S::Idle);
}

const DAY: u64 = 24 * 60 * 60;

/// Decision 13: silence alone never ends a run.
#[test]
fn silent_run_is_unreachable_until_an_event_arrives() {
    for status in [S::Running, S::Interrupting, S::Pausing, S::Resuming, S::Cancelling, S::Idle, S::Paused] {
        Scenario::in_status(status)
            .when(|s| s.clock(20, P::Alive))
            .when(|s| s.clock(69, P::Unreachable))
            .then_events(&[])
            .when(|s| s.clock(1, P::Unreachable))
            .then_events(&["SessionRunUnreachableEvent"])
            .when(|s| s.clock(30 * DAY, P::Unreachable))
            .then_events(&[])
            .then_status(status)
            .then(|s| s.pool.active_count(), &1)
            .observes(used("0.1"))
            .then_event("SessionRunReachableEvent")
            .then(|s| s.conv.session.unreachable_since(), &None);
    }
}

/// Sidecars send no heartbeats while their events are accepted.
#[test]
fn events_alone_renew_the_lease_of_a_run() {
    let mut scenario = leased();
    for _ in 0..100 {
        scenario = scenario.when(|s| s.clock(89, P::Unreachable)).then_events(&[]).observes(said());
    }
    scenario
        .when(|s| s.clock(90, P::Unreachable))
        .then_events(&["SessionRunUnreachableEvent"])
        .then_status(S::Running);
}

#[test]
fn receipt_is_due_after_the_interval_of_heartbeats() {
    let is_due = |s: &Scenario| s.conv.session.is_receipt_due(&Deadlines::default(), s.now);
    Scenario::running()
        .observes(said())
        .when(|s| s.clock(14, P::Alive))
        .then(is_due, &false)
        .when(|s| s.clock(1, P::Alive))
        .then(is_due, &true)
        .observes(said())
        .then(is_due, &false);
}

#[test]
fn a_heartbeat_makes_a_run_reachable() {
    Scenario::running()
        .when(|s| s.clock(90, P::Unreachable))
        .then_events(&["SessionRunUnreachableEvent"])
        .when(|s| s.clock_with_heartbeats(90))
        .then_events(&["SessionRunReachableEvent"]);
}

#[test]
fn deadlines_restart_after_a_run_was_unreachable() {
    let scenario = Scenario::running()
        .when(|s| s.clock(70, P::Unreachable))
        .when(|s| s.interrupt())
        .when(|s| s.clock(20, P::Unreachable))
        .then_events(&["SessionRunUnreachableEvent"])
        .when(|s| s.clock(DAY, P::Unreachable))
        .then_events(&[])
        .observes(said())
        .when(|s| s.clock_with_heartbeats(29))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(1))
        .then_events(&["SessionCommandReissuedEvent"]);
    scenario.then_status(S::Interrupting);
}

/// Nothing is decided about a run whose worker cannot be reached before the run is marked unreachable.
#[test]
fn command_to_an_unreachable_worker_is_not_enforced() {
    Scenario::in_status(S::Interrupting)
        .when(|s| s.clock(30, P::Unreachable))
        .then_events(&[])
        .when(|s| s.clock(30, P::Unreachable))
        .then_events(&[])
        .when(|s| s.clock(30, P::Unreachable))
        .then_events(&["SessionRunUnreachableEvent"]);
}

#[test]
fn messages_wait_while_a_run_is_unreachable() {
    Scenario::idle()
        .when(|s| s.clock(90, P::Unreachable))
        .when(|s| s.steer(1))
        .then_events(&["MessageEnqueuedEvent"])
        .then_queue(&[1], &[])
        .observes(said())
        .then_event("MessageDispatchedEvent")
        .then_queue(&[1], &[1]);
}

#[test]
fn budget_changes_wait_while_a_run_is_unreachable() {
    Scenario::running()
        .when(|s| s.clock(90, P::Unreachable))
        .when(|s| s.raise_cap("5"))
        .then_events(&["SessionBudgetChangedEvent"])
        .observes(said())
        .then_event("SessionAllowanceChangedEvent");
}

#[test]
fn requests_and_hibernation_wait_while_a_run_is_unreachable() {
    Scenario::in_status(S::WaitingForInput)
        .when(|s| s.clock(90, P::Unreachable))
        .then_events(&["SessionRunUnreachableEvent"])
        .when(|s| s.clock(2 * DAY, P::Unreachable))
        .observes(said())
        .when(|s| s.clock_with_heartbeats(14 * 60))
        .then_events(&[])
        .then_status(S::WaitingForInput);
    Scenario::idle()
        .when(|s| s.clock(90, P::Unreachable))
        .when(|s| s.clock(DAY, P::Unreachable))
        .when(|s| s.clock_with_heartbeats(90))
        .then_events(&["SessionRunReachableEvent"])
        .when(|s| s.clock_with_heartbeats(14 * 60))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(60))
        .then_event("SessionHibernationOrderedEvent");
}

/// A confirmed status must not be wrong about a living process (decision 15).
#[test]
fn a_silent_process_that_lives_is_stopped_after_ten_minutes() {
    Scenario::running()
        .when(|s| s.clock(90, P::Alive))
        .then_events(&["SessionRunUnreachableEvent"])
        .when(|s| s.clock(599, P::Alive))
        .then_events(&[])
        .when(|s| s.clock(1, P::Alive))
        .then_events(&["SessionRunStopOrderedEvent"])
        .then_status(S::Running)
        .when(|s| s.clock(90, P::Alive))
        .then_events(&["SessionRunStopOrderedEvent"])
        .when(|s| s.die(true))
        .then_status(S::Failed);
    // The time counts only while the worker is reachable.
    Scenario::running()
        .when(|s| s.clock(90, P::Unreachable))
        .when(|s| s.clock(DAY, P::Unreachable))
        .when(|s| s.clock(90, P::Alive))
        .then_events(&[])
        .when(|s| s.clock(599, P::Alive))
        .then_events(&[])
        .when(|s| s.clock(1, P::Alive))
        .then_events(&["SessionRunStopOrderedEvent"]);
}

#[test]
fn a_silence_decides_nothing_while_events_are_unprocessed() {
    for process in [P::Unknown, P::Dead, P::Unreachable, P::Alive] {
        Scenario::running()
            .when(|s| s.clock_over_a_backlog(600, process))
            .then_events(&[])
            .then_status(S::Running)
            .then(|s| s.conv.session.unreachable_since(), &None);
    }
}

fn leased() -> Scenario {
    let mut scenario = Scenario::running();
    let mut json = serde_json::to_value(&scenario.conv.session).unwrap();
    json["runState"]["current"]["leaseMs"] = (60 * 60 * 1000).into();
    scenario.conv.session = serde_json::from_value(json).unwrap();
    scenario
}

#[test]
fn a_run_ends_five_minutes_after_its_lease() {
    let ended = [
        "SessionRunStopOrderedEvent",
        "AgentSessionFailedEvent",
        "SessionRunEndedEvent",
        "SessionReleasedEvent",
    ];
    leased()
        .when(|s| s.clock(90, P::Unreachable))
        .then_events(&["SessionRunUnreachableEvent"])
        .when(|s| s.clock(65 * 60 - 91, P::Unreachable))
        .then_events(&[])
        .when(|s| s.clock_over_a_backlog(1, P::Unreachable))
        .then_events(&[])
        .when(|s| s.clock(5, P::Unreachable))
        .then_events(&ended);
    // The runtime still sees the process.
    leased()
        .when(|s| s.clock(65 * 60, P::Alive))
        .then_events(&["SessionRunStopOrderedEvent"])
        .then_status(S::Running)
        .when(|s| s.die(true))
        .then_status(S::Failed);
}

#[test]
fn launch_waits_for_an_unreachable_worker() {
    Scenario::launching()
        .when(|s| s.clock(300, P::Unreachable))
        .then_events(&["SessionRunUnreachableEvent"])
        .when(|s| s.clock(DAY, P::Unreachable))
        .then_events(&[])
        .then_status(S::Queued)
        .when(|s| s.clock(90, P::Alive))
        .then_events(&["SessionRunReachableEvent"])
        .when(|s| s.clock(299, P::Alive))
        .then_events(&[])
        .observes(AgentFact::SidecarReady(can_all()))
        .then_status(S::Running);
}

/// Deadlines restart after the machine slept, the server was down, or its clock was stepped forward.
#[test]
fn deadlines_missed_during_an_outage_restart() {
    for away in [5 * 60, 9 * 60 * 60, 30 * DAY] {
        for status in S::ALL.into_iter().filter(|status| !status.is_terminal()) {
            let scenario = Scenario::in_status(status)
                .when(|s| s.clock_with_heartbeats(5))
                .when(|s| s.clock_after_absence(away, P::Alive))
                .then_events(&[])
                .then_status(status);
            scenario.when(|s| s.clock_with_heartbeats(15)).then_events(&[]).then_status(status);
        }
    }
    Scenario::in_status(S::Interrupting)
        .when(|s| s.clock_after_absence(3600, P::Alive))
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["SessionCommandReissuedEvent"]);
}

#[test]
fn lost_run_has_ended_and_its_late_events_only_count_usage() {
    let scenario = Scenario::running().when(|s| s.clock(90, P::Unreachable));
    let scenario = scenario
        .when(|s| s.lose())
        .then_event("AgentSessionFailedEvent")
        .then_event("SessionRunEndedEvent")
        .then_event("SessionReleasedEvent")
        .then_status(S::Failed)
        .then(|s| s.conv.session.past_runs().last().unwrap().end_uncertain, &true);
    scenario
        .observes_late(used("0.2"))
        .then(|s| s.conv.session.budget().estimated_cost_usd(), &crate::scenario::usd("0.2"))
        .observes_late(completes("t1"))
        .then_status(S::Failed);
    Scenario::idle()
        .when(|s| s.steer(1))
        .when(|s| s.lose())
        .then_event("MessageDeliveryUncertainEvent")
        .then_hibernated(S::Idle);
}

/// `force` waits for the worker. Until then the slot stays allocated.
#[test]
fn forced_cancel_of_an_unreachable_run_ends_with_the_process() {
    Scenario::running()
        .when(|s| s.clock(90, P::Unreachable))
        .when(|s| s.force_cancel())
        .then_event("SessionRunStopOrderedEvent")
        .when(|s| s.clock(DAY, P::Unreachable))
        .then_events(&[])
        .then_status(S::Cancelling)
        .then(|s| s.pool.active_count(), &1)
        .when(|s| s.die(true))
        .then_status(S::Cancelled)
        .then(|s| s.pool.active_count(), &0);
}

#[test]
fn messages_sent_to_a_silent_run_become_uncertain() {
    Scenario::idle()
        .when(|s| s.steer(1))
        .when(|s| s.clock(90, P::Unknown))
        .then_event("MessageDeliveryUncertainEvent")
        .then_hibernated(S::Idle);
}

#[test]
fn missing_envelopes_are_requested_three_times_then_lost() {
    let mut scenario = Scenario::running();
    {
        let mut json = serde_json::to_value(&scenario.conv.session).unwrap();
        json["runState"]["current"]["inbox"] = serde_json::json!({ "next": 4, "parked": [7, 8] });
        scenario.conv.session = serde_json::from_value(json).unwrap();
    }
    let ask = |s: &mut Scenario| {
        s.commit::<pilothouse_domain::session::SessionError>(|c, ctx| Ok(c.session.request_replay(ctx)))
    };
    let scenario = scenario
        .when(ask)
        .then_events(&["SessionReplayRequestedEvent"])
        .when(|s| s.clock_with_heartbeats(10))
        .then_events(&["SessionReplayRequestedEvent"])
        .when(|s| s.clock_with_heartbeats(10))
        .then_events(&["SessionReplayRequestedEvent"])
        .when(|s| s.clock_with_heartbeats(10))
        .then_events(&["SessionEventsLostEvent"]);
    let mut inbox = scenario.conv.session.run().unwrap().inbox.clone();
    assert_eq!((inbox.next(), inbox.ready(), inbox.consume(), inbox.consume()), (7, Some(7), Some(8), None));
    assert_eq!((inbox.arrival(6), inbox.arrival(9)), (Arrival::Duplicate, Arrival::Next));
}

/// The resume was never sent to the process that ends: it neither fails with that process nor gets lost.
#[test]
fn resume_during_a_forced_end_starts_the_next_run() {
    let scenario = Scenario::in_status(S::Pausing);
    let command = scenario.pending_command();
    scenario
        .when(|s| s.clock_with_heartbeats(30))
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["SessionRunStopOrderedEvent"])
        .observes(AgentFact::CommandDone(C::Pause, command))
        .then_status(S::Paused)
        .when(|s| s.resume())
        .then_status(S::Resuming)
        .when(|s| s.die(true))
        .then_event("SessionSlotWantedEvent")
        .then_status(S::Resuming)
        .wakes()
        .confirms(C::Resume)
        .then_status(S::Running);
}

#[test]
fn hibernated_session_wakes_on_resume() {
    Scenario::paused()
        .when(|s| s.die(true))
        .when(|s| s.resume())
        .then_events(&[
            "SessionResumeRequestedEvent",
            "SessionSlotWantedEvent",
            "SessionRunRequestedEvent",
            "SessionAllocatedEvent",
        ])
        .then_status(S::Resuming)
        .wakes()
        .then_events(&["SessionRunReadyEvent", "SessionCommandReissuedEvent"])
        .confirms(C::Resume)
        // The turn ended with its process. A message from Pilothouse continues the work.
        .then_events(&["SessionResumedEvent", "MessageEnqueuedEvent", "MessageDispatchedEvent"])
        .then_status(S::Running)
        .observes(starts("t2"))
        .then_events(&["AgentSessionTurnStartedEvent"])
        .then_status(S::Running);
}

/// An agent confirms a pause also while it starts. It never received its task.
#[test]
fn agent_paused_before_its_first_turn_is_asked_to_continue() {
    Scenario::launching()
        .observes(AgentFact::SidecarReady(can_all()))
        .when(|s| s.pause())
        .confirms(C::Pause)
        .then_status(S::Paused)
        .when(|s| s.die(true))
        .then_hibernated(S::Paused)
        .when(|s| s.resume())
        .wakes()
        .confirms(C::Resume)
        .then_events(&["SessionResumedEvent", "MessageEnqueuedEvent", "MessageDispatchedEvent"])
        .observes(starts("t1"))
        .then_status(S::Running);
}

/// What the agent reported before it was paused still counts, but its process cannot take an answer any more.
#[test]
fn requests_of_a_lost_process_do_not_open_after_the_resume() {
    Scenario::running()
        .when(|s| s.pause())
        .observes(asks("q1"))
        .confirms(C::Pause)
        .then_status(S::Paused)
        .when(|s| s.die(true))
        .then_event("SessionRequestClosedEvent")
        .then_hibernated(S::Paused)
        .when(|s| s.resume())
        .wakes()
        .confirms(C::Resume)
        .then_no_event("SessionWaitingForInputEvent")
        .then_event("MessageDispatchedEvent")
        .then_status(S::Running);
}

#[test]
fn agent_whose_turn_was_over_is_not_asked_to_continue() {
    Scenario::running()
        .when(|s| s.pause())
        .observes(completes("t1"))
        .confirms(C::Pause)
        .when(|s| s.die(true))
        .when(|s| s.resume())
        .wakes()
        .confirms(C::Resume)
        .then_no_event("MessageEnqueuedEvent")
        .then_status(S::Idle);
}

#[test]
fn wake_that_never_becomes_ready_fails() {
    Scenario::idle().when(|s| s.die(true)).when(|s| s.steer(1)).when(|s| s.die(true)).then_status(S::Failed);
    Scenario::paused()
        .when(|s| s.die(true))
        .when(|s| s.resume())
        .when(|s| s.clock(300, P::Unknown))
        .then_status(S::Failed);
}

#[test]
fn sidecars_that_die_on_a_message_are_not_woken_forever() {
    let mut scenario =
        Scenario::idle().when(|s| s.steer(1)).when(|s| s.die(true)).then_event("SessionSlotWantedEvent");
    let mut wakes = 0;
    while scenario.conv.session.status() == S::Idle {
        wakes += 1;
        assert!(wakes <= 3, "woken for ever");
        scenario = scenario.wakes().when(|s| s.die(true));
    }
    scenario
        .then_status(S::Failed)
        .then_queue(&[1], &[])
        .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::InfrastructureError);
}

#[test]
fn a_turn_between_two_deaths_counts_as_progress() {
    let mut scenario = Scenario::idle();
    for n in 1..6 {
        scenario = scenario
            .when(|s| s.steer(n))
            .when(|s| s.die(true))
            .wakes()
            .observes(starts_with("t2", n))
            .observes(completes("t2"));
    }
    scenario.then_status(S::Idle);
}

/// A run that ends while no message waits is not a failure, however often that happens.
#[test]
fn hibernation_is_no_failure() {
    let mut scenario = Scenario::idle();
    for n in 1..6 {
        scenario = scenario.when(|s| s.die(true)).when(|s| s.steer(n)).wakes().observes(used("0.1"));
        scenario = scenario.observes(AgentFact::MessageInjected(crate::scenario::message(n)));
    }
    scenario.then_status(S::Idle);
}

#[test]
fn unreceived_begin_is_resent_once_then_the_process_is_ended() {
    Scenario::launching()
        .observes(AgentFact::SidecarReady(can_all()))
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["SessionCommandReissuedEvent"])
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["SessionRunStopOrderedEvent"]);
}

#[test]
fn unreceived_message_is_resent_once_then_the_process_is_ended() {
    Scenario::idle()
        .when(|s| s.steer(1))
        .then_event("MessageDispatchedEvent")
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["MessageDispatchedEvent"])
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["SessionRunStopOrderedEvent"]);
}
