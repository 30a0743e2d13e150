//! Hibernation (decisions 22, 23), and answers that the sidecar never received (decisions 12, 26).

use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, SessionSettings};
use pilothouse_domain::value::{Capabilities, MessageSource};
use pilothouse_domain::{Deadlines, SessionEvent};

use crate::scenario::{Scenario, asks, can_all, completes, results, settings, shows, starts};

const IDLE: u64 = 15 * 60;

fn received_stop(scenario: &Scenario) -> bool {
    !scenario.conv.session.is_live()
}

#[test]
fn resting_or_waiting_session_hibernates_after_its_idle_time() {
    for status in [S::Idle, S::Interrupted, S::WaitingForInput, S::WaitingForApproval] {
        Scenario::in_status(status)
            .when(|s| s.clock_with_heartbeats(IDLE - 1))
            .then_events(&[])
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["SessionHibernationOrderedEvent", "SessionRunStopOrderedEvent"])
            .then_status(status)
            .when(|s| s.die(true))
            .then_hibernated(status)
            .then_event("SessionReleasedEvent");
    }
    Scenario::paused()
        .when(|s| s.clock_with_heartbeats(IDLE))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(3600 - IDLE))
        .then_event("SessionHibernationOrderedEvent")
        .when(|s| s.die(true))
        .then_hibernated(S::Paused);
}

/// Every event restarts the idle timeout.
#[test]
fn activity_defers_hibernation() {
    Scenario::idle()
        .when(|s| s.clock_with_heartbeats(IDLE - 1))
        .observes(AgentFact::Noted)
        .when(|s| s.clock_with_heartbeats(IDLE - 1))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(1))
        .then_event("SessionHibernationOrderedEvent");
}

#[test]
fn working_session_does_not_hibernate() {
    for status in [S::Queued, S::Running] {
        let scenario = Scenario::in_status(status).when(|s| s.clock_with_heartbeats(10));
        assert!(!scenario.happened("SessionHibernationOrderedEvent"));
    }
    // A message was sent, so a turn is about to start.
    Scenario::idle()
        .when(|s| s.follow_up(1))
        .refuses("turn-starting", |s| s.commit(|c, ctx| c.session.hibernate(ctx)));
}

#[test]
fn zero_idle_time_and_unresumable_agents_never_hibernate() {
    let idle = |settings: SessionSettings, can: Capabilities| {
        let mut scenario = Scenario::with(settings);
        scenario.allocate();
        scenario.observes(AgentFact::SidecarReady(can)).observes(starts("t1")).observes(completes("t1"))
    };
    let never = SessionSettings { idle_timeout_seconds: 0, ..settings() };
    let forgets = Capabilities { resume_conversation: false, ..can_all() };
    for scenario in [idle(never, can_all()), idle(settings(), forgets)] {
        scenario
            .when(|s| s.clock_with_heartbeats(7 * 24 * 3600))
            .then_no_event("SessionHibernationOrderedEvent");
    }
    // Folders do not outlive their runs (decision 23).
    let scenario = Scenario::idle();
    let limits = Deadlines { durable_workspace: false, ..Deadlines::default() };
    let due = |limits| scenario.conv.session.next_deadline(limits).map(|(_, due)| format!("{due:?}"));
    assert!(due(&limits).unwrap() == "Silence" && due(&Deadlines::default()).is_some());
}

/// While the sidecar is being stopped the owner can use the session; the next run carries out the operations.
#[test]
fn message_during_hibernation_wakes_the_session() {
    let falling_asleep = |status: S, seconds: u64| {
        Scenario::in_status(status).when(|s| s.clock_with_heartbeats(seconds)).then(received_stop, &true)
    };
    falling_asleep(S::Idle, IDLE)
        .when(|s| s.follow_up(1))
        .then_no_event("MessageDispatchedEvent")
        .when(|s| s.die(true))
        .wakes()
        .then_event("MessageDispatchedEvent");
    falling_asleep(S::Paused, 3600)
        .when(Scenario::resume)
        .when(|s| s.die(true))
        .then_status(S::Resuming)
        .wakes()
        .then_events(&["SessionRunReadyEvent", "SessionCommandReissuedEvent"])
        .confirms(pilothouse_domain::session::LifecycleCommand::Resume)
        .then_status(S::Running);
    falling_asleep(S::WaitingForInput, IDLE)
        .when(|s| s.answer("q1"))
        .then_status(S::Idle)
        .when(|s| s.die(true))
        .wakes()
        .then_event("MessageDispatchedEvent");
    falling_asleep(S::WaitingForInput, IDLE)
        .when(Scenario::interrupt)
        .then_status(S::Interrupting)
        .when(|s| s.die(true))
        .then_hibernated(S::Interrupted);
    falling_asleep(S::Idle, IDLE).when(Scenario::close).then_status(S::Completed);
    falling_asleep(S::Interrupted, IDLE)
        .when(Scenario::cancel)
        .when(|s| s.die(true))
        .then_status(S::Cancelled);
}

/// The runtime kills a sidecar that does not stop.
#[test]
fn sidecar_that_does_not_hibernate_is_ended() {
    Scenario::idle()
        .when(|s| s.clock_with_heartbeats(IDLE))
        .when(|s| s.clock_with_heartbeats(60))
        .then_event("SessionRunStopOrderedEvent")
        .when(|s| s.die(true))
        .then_hibernated(S::Idle);
}

fn messages(scenario: &Scenario) -> Vec<(MessageSource, String)> {
    let all = scenario.conv.queue.messages().iter();
    all.map(|m| (m.source, m.content.as_str().to_owned())).collect()
}

/// An answer without a `received` is sent once more, then the process is stopped and the answer is sent as a message.
#[test]
fn unreceived_answer_is_sent_as_a_message() {
    Scenario::in_status(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .then_status(S::Running)
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["SessionCommandReissuedEvent"])
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["SessionRunStopOrderedEvent"])
        .when(|s| s.die(true))
        .then_event("SessionAnswerReturnedEvent")
        .then_status(S::Idle)
        .then(messages, &vec![(MessageSource::User, "Answers to your questions.\nq1?: yes".to_owned())])
        .wakes()
        .then_event("MessageDispatchedEvent");
    Scenario::in_status(S::WaitingForApproval)
        .when(|s| s.reject_plan("p1"))
        .when(|s| s.die(true))
        .then_event("SessionAnswerReturnedEvent")
        .then_status(S::Idle);
}

/// An answer that was received belongs to the agent: its process died at work (decision 14).
#[test]
fn received_answer_is_not_repeated() {
    let heard = |s: &Scenario| {
        s.last.iter().find_map(|event| match event {
            SessionEvent::InputReceived { command, .. } => *command,
            _ => None,
        })
    };
    let scenario = Scenario::in_status(S::WaitingForInput).when(|s| s.answer("q1"));
    let command = heard(&scenario).unwrap().command_id;
    scenario
        .observes(AgentFact::CommandReceived(command))
        .when(|s| s.clock_with_heartbeats(60))
        .then_events(&[])
        .when(|s| s.die(true))
        .then_status(S::Failed)
        .then(messages, &Vec::new());
    // The result of its tool call shows that the agent had the answer, even without the acknowledgement.
    Scenario::in_status(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .observes(results("q1"))
        .when(|s| s.clock_with_heartbeats(60))
        .then_events(&[]);
}

/// If another request is open, the session keeps waiting for that.
#[test]
fn unreceived_answer_waits_while_another_request_is_open() {
    Scenario::running()
        .observes(asks("q1"))
        .observes(shows("p1"))
        .when(|s| s.answer("q1"))
        .when(|s| s.die(true))
        .then_hibernated(S::WaitingForApproval)
        .then_event("SessionAnswerReturnedEvent")
        .then_no_event("SessionSlotWantedEvent")
        .when(|s| s.approve_plan("p1"))
        .then_event("SessionSlotWantedEvent")
        .then(|s| messages(s).len(), &2);
}
