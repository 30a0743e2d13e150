//! Hibernation (decisions 22, 23), and answers that the sidecar never received (decisions 12, 26).

use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, SessionSettings};
use pilothouse_domain::value::{Capabilities, MessageSource};
use pilothouse_domain::{Deadlines, DomainEvent};

use crate::scene::{Scene, asks, can_all, completes, results, shows, starts};

const IDLE: u64 = 15 * 60;

fn told_to_stop(scene: &Scene) -> bool {
    !scene.conv.session.is_live()
}

#[test]
fn resting_or_waiting_session_hibernates_after_its_idle_time() {
    for status in [S::Idle, S::Interrupted, S::WaitingForInput, S::WaitingForApproval] {
        Scene::in_status(status)
            .when(|s| s.clock_with_heartbeats(IDLE - 1))
            .then_events(&[])
            .when(|s| s.clock_with_heartbeats(1))
            .then_events(&["HibernationOrdered", "RunStopOrdered"])
            .then_status(status)
            .when(|s| s.die(true))
            .then_hibernated(status)
            .then_event("Released");
    }
    Scene::paused()
        .when(|s| s.clock_with_heartbeats(IDLE))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(3600 - IDLE))
        .then_event("HibernationOrdered")
        .when(|s| s.die(true))
        .then_hibernated(S::Paused);
}

/// Every event restarts the idle timeout.
#[test]
fn activity_defers_hibernation() {
    Scene::idle()
        .when(|s| s.clock_with_heartbeats(IDLE - 1))
        .told(AgentFact::Noted)
        .when(|s| s.clock_with_heartbeats(IDLE - 1))
        .then_events(&[])
        .when(|s| s.clock_with_heartbeats(1))
        .then_event("HibernationOrdered");
}

#[test]
fn working_session_does_not_hibernate() {
    for status in [S::Queued, S::Running] {
        let scene = Scene::in_status(status).when(|s| s.clock_with_heartbeats(10));
        assert!(!scene.happened("HibernationOrdered"));
    }
    // A message was sent, so a turn is about to start.
    Scene::idle()
        .when(|s| s.follow_up(1))
        .refuses("turn-starting", |s| s.commit(|c, ctx| c.session.hibernate(ctx)));
}

#[test]
fn zero_idle_time_and_unresumable_agents_never_hibernate() {
    let idle = |settings: SessionSettings, can: Capabilities| {
        let mut scene = Scene::with(settings);
        scene.allocate();
        scene.told(AgentFact::SidecarReady(can)).told(starts("t1")).told(completes("t1"))
    };
    let never = SessionSettings { idle_timeout_seconds: 0, ..SessionSettings::default() };
    let forgets = Capabilities { resume_conversation: false, ..can_all() };
    for scene in [idle(never, can_all()), idle(SessionSettings::default(), forgets)] {
        scene.when(|s| s.clock_with_heartbeats(7 * 24 * 3600)).then_no_event("HibernationOrdered");
    }
    // Folders do not outlive their runs (decision 23).
    let scene = Scene::idle();
    let limits = Deadlines { durable_workspace: false, ..Deadlines::default() };
    let due = |limits| scene.conv.session.next_deadline(limits).map(|(_, due)| format!("{due:?}"));
    assert!(due(&limits).unwrap() == "Silence" && due(&Deadlines::default()).is_some());
}

/// While the sidecar is being stopped the owner can use the session; the next run carries out the operations.
#[test]
fn message_during_hibernation_wakes_the_session() {
    let falling_asleep = |status: S, seconds: u64| {
        Scene::in_status(status).when(|s| s.clock_with_heartbeats(seconds)).then(told_to_stop, &true)
    };
    falling_asleep(S::Idle, IDLE)
        .when(|s| s.follow_up(1))
        .then_no_event("MessageDispatched")
        .when(|s| s.die(true))
        .wakes()
        .then_event("MessageDispatched");
    falling_asleep(S::Paused, 3600)
        .when(Scene::resume)
        .when(|s| s.die(true))
        .then_status(S::Resuming)
        .wakes()
        .then_events(&["RunReady", "CommandReissued"])
        .told_done(pilothouse_domain::session::LifecycleCommand::Resume)
        .then_status(S::Running);
    falling_asleep(S::WaitingForInput, IDLE)
        .when(|s| s.answer("q1"))
        .then_status(S::Idle)
        .when(|s| s.die(true))
        .wakes()
        .then_event("MessageDispatched");
    falling_asleep(S::WaitingForInput, IDLE)
        .when(Scene::interrupt)
        .then_status(S::Interrupting)
        .when(|s| s.die(true))
        .then_hibernated(S::Interrupted);
    falling_asleep(S::Idle, IDLE).when(Scene::close).then_status(S::Completed);
    falling_asleep(S::Interrupted, IDLE).when(Scene::cancel).when(|s| s.die(true)).then_status(S::Cancelled);
}

/// The runtime kills a sidecar that does not stop.
#[test]
fn sidecar_that_does_not_hibernate_is_ended() {
    Scene::idle()
        .when(|s| s.clock_with_heartbeats(IDLE))
        .when(|s| s.clock_with_heartbeats(60))
        .then_event("RunStopOrdered")
        .when(|s| s.die(true))
        .then_hibernated(S::Idle);
}

fn messages(scene: &Scene) -> Vec<(MessageSource, String)> {
    let all = scene.conv.queue.messages().iter();
    all.map(|m| (m.source, m.content.as_str().to_owned())).collect()
}

/// An answer without a `received` is sent once more, then the process is stopped and the answer is sent as a message.
#[test]
fn unreceived_answer_is_sent_as_a_message() {
    Scene::in_status(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .then_status(S::Running)
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["CommandReissued"])
        .when(|s| s.clock_with_heartbeats(30))
        .then_events(&["RunStopOrdered"])
        .when(|s| s.die(true))
        .then_event("AnswerReturned")
        .then_status(S::Idle)
        .then(messages, &vec![(MessageSource::User, "Answers to your questions.\nq1?: yes".to_owned())])
        .wakes()
        .then_event("MessageDispatched");
    Scene::in_status(S::WaitingForApproval)
        .when(|s| s.reject_plan("p1"))
        .when(|s| s.die(true))
        .then_event("AnswerReturned")
        .then_status(S::Idle);
}

/// An answer that was received belongs to the agent: its process died at work (decision 14).
#[test]
fn received_answer_is_not_repeated() {
    let heard = |s: &Scene| {
        s.last.iter().find_map(|event| match event {
            DomainEvent::InputReceived { command, .. } => *command,
            _ => None,
        })
    };
    let scene = Scene::in_status(S::WaitingForInput).when(|s| s.answer("q1"));
    let command = heard(&scene).unwrap().command_id;
    scene
        .told(AgentFact::CommandReceived(command))
        .when(|s| s.clock_with_heartbeats(60))
        .then_events(&[])
        .when(|s| s.die(true))
        .then_status(S::Failed)
        .then(messages, &Vec::new());
    // The result of its tool call shows that the agent had the answer, even without the acknowledgement.
    Scene::in_status(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .told(results("q1"))
        .when(|s| s.clock_with_heartbeats(60))
        .then_events(&[]);
}

/// If another request is open, the session keeps waiting for that.
#[test]
fn unreceived_answer_waits_while_another_request_is_open() {
    Scene::running()
        .told(asks("q1"))
        .told(shows("p1"))
        .when(|s| s.answer("q1"))
        .when(|s| s.die(true))
        .then_hibernated(S::WaitingForApproval)
        .then_event("AnswerReturned")
        .then_no_event("SlotWanted")
        .when(|s| s.approve_plan("p1"))
        .then_event("SlotWanted")
        .then(|s| messages(s).len(), &2);
}
