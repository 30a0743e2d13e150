//! Nothing hangs (rulings 9, 12 to 14).

use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, Arrival, LifecycleCommand as C, ProcessState as P,
};
use pilothouse_domain::value::FailureReason;

use crate::scene::{Scene, can_all, completes, ends, starts_with, used};

#[test]
fn a_process_that_dies_at_work_fails_its_session() {
    for status in [S::Running, S::Interrupting, S::Pausing, S::Resuming] {
        Scene::in_status(status)
            .when(|s| s.die(true))
            .then_event("Failed")
            .then_status(S::Failed)
            .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::InfrastructureError);
    }
    Scene::in_status(S::Queued).when(|s| s.die(true)).then_status(S::Failed);
}

#[test]
fn a_process_that_dies_at_rest_leaves_its_session_hibernated() {
    for status in [S::Idle, S::Interrupted, S::Paused, S::WaitingForInput, S::WaitingForApproval] {
        Scene::in_status(status)
            .when(|s| s.die(true))
            .then_events(&["RunEnded", "Released"])
            .then_hibernated(status);
    }
    Scene::in_status(S::Cancelling).when(|s| s.die(true)).then_status(S::Cancelled);
    for status in [S::Cancelled, S::Completed, S::Failed, S::ContextExhausted] {
        Scene::in_status(status)
            .when(|s| s.die(true))
            .then_events(&["RunEnded", "Released"])
            .then_status(status);
    }
}

/// Ruling 17 before ruling 14: what the agent told before it died counts.
#[test]
fn a_process_that_dies_after_its_turn_fails_nothing() {
    for (status, rests) in [(S::Interrupting, S::Idle), (S::Pausing, S::Paused), (S::Resuming, S::Paused)] {
        Scene::in_status(status).told(completes("t1")).when(|s| s.die(true)).then_hibernated(rests);
        Scene::in_status(status)
            .told(ends(true))
            .when(|s| s.die(true))
            .then_status(S::Failed)
            .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::AgentError);
    }
}

#[test]
fn the_end_of_another_run_ends_nothing() {
    let scene = Scene::idle();
    let old = scene.run();
    let scene = scene.when(|s| s.die(true)).when(|s| s.steer(1)).wakes().told(starts_with("t2", 1));
    scene
        .when(|s| s.commit(|c, cx| c.run_ended(old, true, None, cx)))
        .then_events(&[])
        .then_status(S::Running);
}

#[test]
fn a_command_that_is_not_received_is_sent_once_more_and_then_enforced() {
    for (status, rests) in
        [(S::Interrupting, S::Interrupted), (S::Pausing, S::Paused), (S::Resuming, S::Paused)]
    {
        Scene::in_status(status)
            .when(|s| s.clock_with_heartbeats(29))
            .then_events(&[])
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["CommandReissued"])
            .when(|s| s.clock_with_heartbeats(30))
            .then_events(&["RunStopOrdered"])
            .then_status(status)
            .when(|s| s.die(true))
            .then_hibernated(rests);
    }
    Scene::in_status(S::Cancelling)
        .when(|s| s.clock(30, P::Alive))
        .when(|s| s.clock(30, P::Alive))
        .when(|s| s.die(true))
        .then_status(S::Cancelled);
}

/// What the spool still holds is published before the runtime reports the end; a silence bounds the wait.
#[test]
fn a_command_that_is_not_received_by_a_dead_process_waits_for_the_word_of_its_end() {
    for (status, then) in [
        (S::Interrupting, S::Failed),
        (S::Pausing, S::Failed),
        (S::Resuming, S::Failed),
        (S::Cancelling, S::Cancelled),
    ] {
        let scene =
            Scene::in_status(status).when(|s| s.clock(30, P::Dead)).then_events(&[]).then_status(status);
        scene.clone().when(|s| s.die(true)).then_event("RunEnded").then_status(then);
        scene
            .when(|s| s.clock(60, P::Dead))
            .then_events(&["RunStopOrdered"])
            .when(|s| s.clock(90, P::Dead))
            .then_event("RunEnded")
            .then_status(then);
    }
}

#[test]
fn an_interrupt_or_stop_that_is_not_done_is_enforced_and_a_late_acknowledgement_still_counts() {
    for (status, kind, then) in
        [(S::Interrupting, C::Interrupt, S::Interrupted), (S::Cancelling, C::Stop, S::Cancelled)]
    {
        let scene = Scene::in_status(status);
        let command = scene.outstanding();
        let scene = scene
            .told(AgentFact::CommandReceived(command))
            .when(|s| s.clock_with_heartbeats(59))
            .then_events(&[])
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["RunStopOrdered"]);
        scene.clone().when(|s| s.die(true)).then_status(then);
        scene
            .told(AgentFact::CommandDone(kind, command))
            .then_status(then)
            .when(|s| s.die(true))
            .then_status(then);
    }
}

#[test]
fn a_pause_that_takes_long_only_notifies() {
    for (status, kind, then) in [(S::Pausing, C::Pause, S::Paused), (S::Resuming, C::Resume, S::Running)] {
        let scene = Scene::in_status(status);
        let command = scene.outstanding();
        scene
            .told(AgentFact::CommandReceived(command))
            .when(|s| s.clock_with_heartbeats(15 * 60))
            .then_events(&["CommandLate", "CommandReissued"])
            .when(|s| s.clock_with_heartbeats(10 * 60))
            .then_events(&[])
            // Its owner is told once. Its sidecar is asked again, for the word that it did it may be what was lost.
            .when(|s| s.clock_with_heartbeats(60 * 60))
            .then_events(&["CommandReissued"])
            .then_status(status)
            .told(AgentFact::CommandDone(kind, command))
            .then_status(then);
    }
}

/// Ruling 23: without a place it waits, and with one it has its five minutes.
#[test]
fn a_launch_without_a_place_waits_and_has_its_time_once_it_has_found_one() {
    Scene::launching()
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
    Scene::launching()
        .when(|s| s.clock(300, P::Waiting))
        .when(|s| s.clock(300, P::Dead))
        .then_status(S::Failed);
}

#[test]
fn a_launch_that_takes_too_long_fails() {
    Scene::launching()
        .when(|s| s.clock(5 * 60 - 1, P::Unknown))
        .then_events(&[])
        .when(|s| s.clock(1, P::Alive))
        .then_events(&["Failed", "RunStopOrdered"])
        .then_status(S::Failed)
        .told(AgentFact::SidecarReady(can_all()))
        .then_status(S::Failed);
}

#[test]
fn a_stop_that_takes_too_long_is_enforced() {
    Scene::idle()
        .when(|s| s.close())
        .then_event("RunStopOrdered")
        .when(|s| s.clock(59, P::Alive))
        .then_events(&[])
        .when(|s| s.clock(1, P::Alive))
        .then_events(&["RunStopOrdered"])
        .when(|s| s.clock(90, P::Dead))
        .then_event("RunEnded");
}

#[test]
fn silence_is_death() {
    Scene::running()
        .when(|s| s.clock_with_heartbeats(89))
        .when(|s| s.clock_with_heartbeats(89))
        .then_status(S::Running)
        .when(|s| s.clock(90, P::Unknown))
        .then_events(&["RunStopOrdered", "Failed", "RunEnded", "Released"])
        .then_status(S::Failed);
    // One that was seen to end is first given the time to have its spool published.
    Scene::idle()
        .when(|s| s.clock(90, P::Dead))
        .then_events(&["RunStopOrdered"])
        .when(|s| s.clock(90, P::Dead))
        .then_hibernated(S::Idle);
}

/// A confirmed state never lies about a living process (ruling 15).
#[test]
fn a_silent_process_that_lives_is_ended_first() {
    Scene::running()
        .when(|s| s.clock(90, P::Alive))
        .then_events(&["RunStopOrdered"])
        .then_status(S::Running)
        .when(|s| s.clock(90, P::Alive))
        .then_events(&["RunStopOrdered"])
        .when(|s| s.die(true))
        .then_status(S::Failed);
}

#[test]
fn what_was_sent_to_a_silent_run_is_uncertain() {
    Scene::idle()
        .when(|s| s.steer(1))
        .when(|s| s.clock(90, P::Unknown))
        .then_event("MessageDeliveryUncertain")
        .then_hibernated(S::Idle);
}

#[test]
fn missing_envelopes_are_asked_for_three_times_and_then_lost() {
    let mut scene = Scene::running();
    {
        let mut json = serde_json::to_value(&scene.conv.session).unwrap();
        json["run"]["inbox"] = serde_json::json!({ "next": 4, "parked": [7, 8] });
        scene.conv.session = serde_json::from_value(json).unwrap();
    }
    let ask = |s: &mut Scene| {
        s.commit::<pilothouse_domain::session::SessionError>(|c, cx| Ok(c.session.ask_for_missing(cx)))
    };
    let scene = scene
        .when(ask)
        .then_events(&["ReplayRequested"])
        .when(|s| s.clock_with_heartbeats(10))
        .then_events(&["ReplayRequested"])
        .when(|s| s.clock_with_heartbeats(10))
        .then_events(&["ReplayRequested"])
        .when(|s| s.clock_with_heartbeats(10))
        .then_events(&["EventsLost"]);
    let mut inbox = scene.conv.session.run().unwrap().inbox.clone();
    assert_eq!((inbox.next(), inbox.ready(), inbox.consume(), inbox.consume()), (7, Some(7), Some(8), None));
    assert_eq!((inbox.arrival(6), inbox.arrival(9)), (Arrival::Duplicate, Arrival::Next));
}

/// Its resume was never asked of the process that ends: neither does it fail with it, nor is it lost.
#[test]
fn a_resume_while_the_process_is_being_ended_is_taken_up_by_the_next_run() {
    let scene = Scene::in_status(S::Pausing);
    let command = scene.outstanding();
    scene
        .when(|s| s.clock_with_heartbeats(30))
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["RunStopOrdered"])
        .told(AgentFact::CommandDone(C::Pause, command))
        .then_status(S::Paused)
        .when(|s| s.resume())
        .then_status(S::Resuming)
        .when(|s| s.die(true))
        .then_event("SlotWanted")
        .then_status(S::Resuming)
        .wakes()
        .told_done(C::Resume)
        .then_status(S::Running);
}

#[test]
fn a_hibernated_session_wakes_for_its_resume() {
    Scene::paused()
        .when(|s| s.die(true))
        .when(|s| s.resume())
        .then_events(&["ResumeRequested", "SlotWanted", "RunRequested", "Allocated"])
        .then_status(S::Resuming)
        .wakes()
        .then_events(&["RunReady", "CommandReissued"])
        .told_done(C::Resume)
        .then_status(S::Running);
}

#[test]
fn a_wake_that_never_gets_ready_fails() {
    Scene::idle().when(|s| s.die(true)).when(|s| s.steer(1)).when(|s| s.die(true)).then_status(S::Failed);
    Scene::paused()
        .when(|s| s.die(true))
        .when(|s| s.resume())
        .when(|s| s.clock(300, P::Unknown))
        .then_status(S::Failed);
}

#[test]
fn sidecars_that_die_over_a_message_are_not_woken_for_ever() {
    let mut scene = Scene::idle().when(|s| s.steer(1)).when(|s| s.die(true)).then_event("SlotWanted");
    let mut wakes = 0;
    while scene.conv.session.status() == S::Idle {
        wakes += 1;
        assert!(wakes <= 3, "woken for ever");
        scene = scene.wakes().when(|s| s.die(true));
    }
    scene
        .then_status(S::Failed)
        .then_queue(&[1], &[])
        .then(|s| s.conv.session.failure().unwrap().reason, &FailureReason::InfrastructureError);
}

#[test]
fn a_turn_between_two_deaths_counts_as_progress() {
    let mut scene = Scene::idle();
    for n in 1..6 {
        scene = scene
            .when(|s| s.steer(n))
            .when(|s| s.die(true))
            .wakes()
            .told(starts_with("t2", n))
            .told(completes("t2"));
    }
    scene.then_status(S::Idle);
}

/// A run that ended while nothing waited is no failure, however often that happens.
#[test]
fn hibernation_is_no_failure() {
    let mut scene = Scene::idle();
    for n in 1..6 {
        scene = scene.when(|s| s.die(true)).when(|s| s.steer(n)).wakes().told(used("0.1"));
        scene = scene.told(AgentFact::MessageInjected(crate::scene::message(n)));
    }
    scene.then_status(S::Idle);
}

#[test]
fn a_begin_that_is_not_received_is_sent_once_more_and_then_its_process_is_ended() {
    Scene::launching()
        .told(AgentFact::SidecarReady(can_all()))
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["CommandReissued"])
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["RunStopOrdered"]);
}

#[test]
fn a_message_that_is_not_received_is_sent_once_more_and_then_its_process_is_ended() {
    Scene::idle()
        .when(|s| s.steer(1))
        .then_event("MessageDispatched")
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["MessageDispatched"])
        .when(|s| s.clock_with_heartbeats(31))
        .then_events(&["RunStopOrdered"]);
}
