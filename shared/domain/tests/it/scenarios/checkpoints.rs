//! Checkpoints, kills and restarts of the agents of projects (S2, "Session management and checkpointing"; decision 90).

use std::time::Duration;

use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::control_mode::{ControlMode, ControlModeSetting, ModeRevision};
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, CheckpointCause as Cause, Grace, LifecycleCommand as C, PausedReason,
    ProcessState, RunPhase, SessionError, WorkStop,
};
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::value::{Capabilities, FailureReason, ProjectMembership};
use pilothouse_domain::{AgentSession, DecisionId, ProjectId, SessionEvent, Timestamp};
use uuid::Uuid;

use crate::scenario::{
    PROJECT_AGENT, Scenario, Step, asks, can_all, completes, ends, settings, shows, starts, used,
};

/// A session of a project in turn `t1`, after its agent reported usage.
fn working() -> Scenario {
    working_with(can_all())
}

fn working_with(capabilities: Capabilities) -> Scenario {
    let mut scenario = Scenario::with(settings());
    scenario.conv.session.join_project(ProjectMembership {
        project_id: ProjectId::new(Uuid::from_u128(1)),
        agent_id: PROJECT_AGENT,
        workstream: WorkstreamId::parse("api").unwrap(),
    });
    scenario.allocate();
    scenario.observes(AgentFact::SidecarReady(capabilities)).observes(starts("t1")).observes(used("0.1"))
}

fn causes(scenario: &Scenario) -> Vec<Cause> {
    scenario.conv.session.checkpoints().iter().map(|it| it.serialized_by).collect()
}

fn pending(scenario: &Scenario) -> Vec<usize> {
    scenario.conv.session.checkpoints().iter().map(|it| it.pending_decision_ids.len()).collect()
}

fn open(scenario: &Scenario) -> Vec<DecisionId> {
    scenario.conv.session.open_decisions().map(|it| it.id).collect()
}

impl Scenario {
    fn kill(&mut self, grace: Grace) -> Step {
        self.commit(|conv, ctx| conv.kill(grace, ctx))
    }

    fn restart(&mut self, mode: &ControlModeSetting) -> Step {
        self.commit::<SessionError>(|conv, ctx| Ok(conv.session.restart_process(mode, ctx)))
    }
}

/// The control mode after its first change, at this time.
fn changed(now: Timestamp) -> ControlModeSetting {
    let mut mode = ControlModeSetting::new(ControlMode::Ecosystem, now);
    mode.change(ControlMode::Orchestrator, now).unwrap();
    mode
}

#[test]
fn decision_makes_a_checkpoint_with_what_waits() {
    let scenario = working().observes(asks("q1")).observes(shows("p1"));
    let checkpoints = scenario.conv.session.checkpoints().to_vec();
    assert_eq!(causes(&scenario), [Cause::Decision, Cause::Decision]);
    assert_eq!(checkpoints[1].pending_decision_ids, open(&scenario));
    assert_eq!(checkpoints[1].conversation.as_ref().unwrap().as_str(), "main");
    assert_eq!((checkpoints[1].run, checkpoints[1].serialized_at), (1, scenario.now));
}

#[test]
fn repeated_question_makes_no_second_checkpoint() {
    working().observes(asks("q1")).observes(asks("q1")).then(causes, &vec![Cause::Decision]);
}

/// S2, "Capability-gated lifecycle semantics"; decision 94.
#[test]
fn pause_of_an_agent_that_cannot_pause_ends_its_process() {
    working_with(Capabilities { pause: false, ..can_all() })
        .when(Scenario::pause)
        .then_events(&["SessionPauseRequestedEvent", "SessionRunStopOrderedEvent"])
        .then_status(S::Pausing)
        .when(|s| s.die(true))
        .then_hibernated(S::Paused)
        .then(causes, &vec![Cause::Pause])
        .when(Scenario::resume)
        .wakes()
        .confirms(C::Resume)
        .then_status(S::Running);
}

#[test]
fn confirmed_pause_makes_a_checkpoint() {
    working()
        .when(Scenario::pause)
        .then(causes, &Vec::new())
        .confirms(C::Pause)
        .then(causes, &vec![Cause::Pause]);
}

#[test]
fn last_three_checkpoints_are_kept() {
    let scenario =
        working().observes(asks("q1")).observes(asks("q2")).observes(asks("q3")).observes(asks("q4"));
    assert_eq!(pending(&scenario), [2, 3, 4]);
    let stored = serde_json::to_value(&scenario.conv.session).unwrap();
    let loaded: AgentSession = serde_json::from_value(stored).unwrap();
    assert_eq!(loaded.checkpoints(), scenario.conv.session.checkpoints());
}

#[test]
fn session_outside_of_projects_has_no_checkpoints() {
    let scenario = Scenario::running().observes(used("0.1")).observes(asks("q1"));
    assert_eq!(causes(&scenario), []);
    let stored = serde_json::to_value(&scenario.conv.session).unwrap();
    assert!(stored.get("checkpoints").is_none() && stored.get("kill").is_none());
}

#[test]
fn kill_within_its_grace_period_keeps_the_state() {
    let scenario = working().observes(asks("q1"));
    let waits = open(&scenario);
    let scenario = scenario
        .when(|s| s.kill(Grace::Within(Duration::from_secs(10))))
        .then_status(S::Cancelling)
        .confirms(C::Stop)
        .then_status(S::Cancelled);
    let outcome = scenario.conv.session.kill_outcome().unwrap();
    assert!(outcome.is_clean);
    assert_eq!(outcome.state.unwrap().pending_decision_ids, waits, "they were open when it was killed");
    assert_eq!(causes(&scenario), [Cause::Decision, Cause::KillGrace]);
}

#[test]
fn agent_that_outlasts_its_grace_period_is_ended_unclean() {
    let scenario = working()
        .when(|s| s.kill(Grace::Within(Duration::from_secs(10))))
        .receives()
        .then(|s| s.conv.session.kill_outcome().is_some(), &false)
        .when(|s| s.clock(9, ProcessState::Alive))
        .then(|s| matches!(s.conv.session.run().unwrap().phase, RunPhase::Live), &true)
        .when(|s| s.clock(1, ProcessState::Alive))
        .then_event("SessionRunStopOrderedEvent");
    let scenario = scenario.when(|s| s.die(true)).then_status(S::Cancelled);
    let outcome = scenario.conv.session.kill_outcome().unwrap();
    assert_eq!((outcome.is_clean, outcome.state), (false, None));
}

#[test]
fn second_kill_shortens_the_grace_period_only() {
    working()
        .when(|s| s.kill(Grace::Within(Duration::from_secs(20))))
        .receives()
        .when(|s| s.kill(Grace::Within(Duration::from_secs(5))))
        .when(|s| s.kill(Grace::Within(Duration::from_secs(30))))
        .when(|s| s.clock(5, ProcessState::Alive))
        .then_event("SessionRunStopOrderedEvent")
        .then_status(S::Cancelling);
}

/// S2's default is ten seconds.
#[test]
fn kill_without_a_grace_period_has_the_limit_of_a_stop() {
    working()
        .when(|s| s.kill(Grace::Unlimited))
        .receives()
        .when(|s| s.clock_with_heartbeats(59))
        .then_events(&[])
        .then_status(S::Cancelling)
        .when(|s| s.clock_with_heartbeats(1))
        .then_event("SessionRunStopOrderedEvent");
}

#[test]
fn kill_of_a_failed_session_does_not_end_its_retry() {
    let fails = |s: &mut Scenario| {
        s.commit(|conv, ctx| conv.session.record_failure(FailureReason::AgentError, None, ctx))
    };
    working()
        .when(Scenario::pause)
        .when(|s| s.kill(Grace::Within(Duration::from_secs(10))))
        .when(fails)
        .when(|s| s.die(true))
        .when(Scenario::retry)
        .wakes()
        .when(|s| s.clock_with_heartbeats(10))
        .then_no_event("SessionRunStopOrderedEvent")
        .then_status(S::Running)
        .then(|s| s.conv.session.is_live(), &true);
}

#[test]
fn kill_without_grace_leaves_no_state() {
    let scenario = working().when(|s| s.kill(Grace::None)).then_event("SessionRunStopOrderedEvent");
    assert_eq!(causes(&scenario), []);
}

#[test]
fn crash_makes_a_checkpoint_with_what_waited() {
    let scenario = working().observes(asks("q1"));
    let waits = open(&scenario);
    let scenario = scenario.observes(ends(true)).then_status(S::Failed);
    let latest = scenario.conv.session.checkpoints().last().unwrap();
    assert_eq!(latest.serialized_by, Cause::CrashRecovery);
    assert_eq!(latest.pending_decision_ids, waits);
    assert_eq!(scenario.conv.session.failure().unwrap().reason, FailureReason::AgentError);
}

#[test]
fn killed_work_of_an_exhausted_session_is_not_continued() {
    let scenario = working()
        .observes(AgentFact::ContextExhausted)
        .then(|s| s.conv.session.awaits_document(), &true)
        .when(|s| s.kill(Grace::Unlimited))
        .then_events(&["SessionWorkStoppedEvent", "SessionRunStopOrderedEvent"])
        .then(|s| s.conv.session.awaits_document(), &false)
        .then(|s| s.conv.session.work_stop(), &Some(WorkStop::Killed));
    scenario.refuses("invalid-transition", |s| s.kill(Grace::Unlimited));
}

#[test]
fn running_agent_restarts_and_continues_by_itself() {
    let mut scenario = working();
    scenario.now = scenario.now + Duration::from_secs(1);
    let mode = changed(scenario.now);
    let first = scenario.run();
    let scenario = scenario
        .when(|s| s.restart(&mode))
        .then_events(&["SessionProcessRestartRequestedEvent", "SessionPauseRequestedEvent"])
        .then(|s| s.conv.session.paused_reason(), &Some(PausedReason::Restart))
        .confirms(C::Pause)
        .then_event("SessionRunStopOrderedEvent")
        .then(causes, &vec![Cause::Pause]);
    let scenario =
        scenario.when(|s| s.die(true)).then_event("SessionResumeRequestedEvent").then_status(S::Resuming);
    assert_ne!(scenario.run(), first);
    scenario
        .observes(AgentFact::SidecarReady(can_all()))
        .confirms(C::Resume)
        .then_status(S::Running)
        .when(|s| s.restart(&mode))
        .then_events(&[]);
}

#[test]
fn restart_is_requested_once_for_each_mode() {
    let mut scenario = working();
    scenario.now = scenario.now + Duration::from_secs(1);
    let mode = changed(scenario.now);
    scenario
        .when(|s| s.restart(&mode))
        .when(|s| s.restart(&mode))
        .then_events(&[])
        .then(|s| s.conv.session.is_restarted_for(ModeRevision::new(1)), &true);
}

#[test]
fn resting_and_waiting_agents_restart_with_their_next_work() {
    for scenario in [working().observes(completes("t1")), working().observes(asks("q1"))] {
        let mut scenario = scenario;
        scenario.now = scenario.now + Duration::from_secs(1);
        let (mode, status) = (changed(scenario.now), scenario.conv.session.status());
        scenario
            .when(|s| s.restart(&mode))
            .then_events(&["SessionProcessRestartRequestedEvent", "SessionRunStopOrderedEvent"])
            .when(|s| s.die(true))
            .then_status(status)
            .then(|s| s.conv.session.run().is_none(), &true);
    }
}

#[test]
fn restart_under_a_brake_waits_for_the_release() {
    let mut scenario = working();
    scenario.now = scenario.now + Duration::from_secs(1);
    let mode = changed(scenario.now);
    scenario
        .when(|s| s.pull(1, BrakeBehavior::Pause))
        .confirms(C::Pause)
        .when(|s| s.restart(&mode))
        .then_events(&["SessionProcessRestartRequestedEvent"])
        .then_status(S::Paused)
        .when(|s| s.release_brake(1))
        .then_event("SessionRunStopOrderedEvent");
}

#[test]
fn restart_of_a_paused_agent_does_not_wait_for_a_sent_message() {
    let mut scenario = working().when(|s| s.steer(1)).then_event("MessageDispatchedEvent");
    scenario.now = scenario.now + Duration::from_secs(1);
    let mode = changed(scenario.now);
    scenario
        .when(|s| s.pull(1, BrakeBehavior::Pause))
        .confirms(C::Pause)
        .when(|s| s.restart(&mode))
        .then_events(&["SessionProcessRestartRequestedEvent"])
        .when(|s| s.release_brake(1))
        .then_event("SessionRunStopOrderedEvent")
        .when(|s| s.die(true))
        .then_event("SessionResumeRequestedEvent")
        .then_status(S::Resuming)
        .then_queue(&[1], &[]);
}

#[test]
fn process_that_could_not_continue_is_not_restarted() {
    let mut scenario = working_with(Capabilities { resume_conversation: false, ..can_all() });
    scenario.now = scenario.now + Duration::from_secs(1);
    let mode = changed(scenario.now);
    scenario.when(|s| s.restart(&mode)).then_events(&[]).then_status(S::Running);
}

#[test]
fn process_configured_after_the_change_is_not_restarted() {
    let mode = changed(working().now);
    working().when(|s| s.restart(&mode)).then_events(&[]);
}

#[test]
fn cancelled_session_gives_up_its_restart() {
    let mut scenario = working();
    scenario.now = scenario.now + Duration::from_secs(1);
    let mode = changed(scenario.now);
    let resumes =
        |s: &Scenario| s.last.iter().any(|event| matches!(event, SessionEvent::ResumeRequested { .. }));
    scenario
        .when(|s| s.restart(&mode))
        .when(|s| s.kill(Grace::Unlimited))
        .confirms(C::Pause)
        .then_status(S::Cancelling)
        .then(resumes, &false)
        .confirms(C::Stop)
        .then_status(S::Cancelled)
        .then(resumes, &false);
}

/// Whatever the session does when its process dies, no restart is left for the next process.
#[test]
fn restart_ends_with_the_process_in_every_status() {
    let pending = |scenario: &Scenario| {
        let stored = serde_json::to_value(&scenario.conv.session).unwrap();
        let restart = stored.get("processRestart")?;
        Some(restart["isPending"].as_bool().unwrap())
    };
    let mut requested = Vec::new();
    for status in S::ALL {
        let mut scenario = Scenario::in_status(status);
        scenario.now = scenario.now + Duration::from_secs(1);
        let mode = changed(scenario.now);
        let scenario = scenario.when(|s| s.restart(&mode));
        if pending(&scenario) == Some(true) {
            requested.push(status);
        }
        let scenario = scenario.when(|s| s.die(false));
        assert_ne!(pending(&scenario), Some(true), "{status}");
    }
    assert!(requested.contains(&S::Running) && requested.contains(&S::WaitingForInput), "{requested:?}");
}

/// The end of its process completes the pause, and then nothing is left to stop.
#[test]
fn agent_that_is_ended_in_a_pause_did_not_stop_by_itself() {
    let scenario = working()
        .when(Scenario::pause)
        .when(|s| s.kill(Grace::None))
        .when(|s| s.die(true))
        .then_status(S::Cancelled);
    let outcome = scenario.conv.session.kill_outcome().unwrap();
    assert_eq!((outcome.is_clean, outcome.state), (false, None));
}
