//! Emergency brakes (S2 "Emergency Brake", decision 72): what a hold does in each status, and what its release resumes.

use std::collections::BTreeMap;

use pilothouse_domain::brake::{
    Brake, BrakeBehavior as B, BrakeError, BrakeScope, HoldStage, NewBrake, ReleasedBy,
};
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as C, PausedReason, ProcessState, RunPhase,
    SessionSettings,
};
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::value::{Capabilities, ProjectMembership};
use pilothouse_domain::{AgentSession, AgentSessionId, Deadlines, DomainContext, SessionEvent};
use uuid::Uuid;

use crate::scenario::{Ids, Scenario, asks, brake, can_all, completes, new_brake, said, settings, starts};

fn stage(scenario: &Scenario) -> HoldStage {
    scenario.stage(1)
}

fn reason(scenario: &Scenario) -> Option<PausedReason> {
    scenario.conv.session.paused_reason()
}

#[test]
fn brake_pauses_a_running_session_and_its_release_resumes_it() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .then_events(&["SessionHeldEvent", "SessionPauseRequestedEvent"])
        .then_status(S::Pausing)
        .then(stage, &HoldStage::Requested)
        .then(reason, &Some(PausedReason::Brake))
        .receives()
        .then(stage, &HoldStage::Acknowledged)
        .confirms(C::Pause)
        .then_status(S::Paused)
        .then(stage, &HoldStage::Confirmed)
        .refuses("braked", Scenario::resume)
        .when(|s| s.release_brake(1))
        .then_events(&["SessionHoldReleasedEvent", "SessionResumeRequestedEvent"])
        .confirms(C::Resume)
        .then_status(S::Running);
}

#[test]
fn release_does_not_resume_what_the_owner_paused() {
    Scenario::paused()
        .when(|s| s.pull(1, B::Pause))
        .then_events(&["SessionHeldEvent"])
        .then(stage, &HoldStage::Confirmed)
        .then(reason, &Some(PausedReason::Owner))
        .when(|s| s.release_brake(1))
        .then_events(&["SessionHoldReleasedEvent"])
        .then_status(S::Paused)
        .when(Scenario::resume);
}

#[test]
fn owner_who_pauses_a_held_session_keeps_it_paused() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .confirms(C::Pause)
        .when(Scenario::pause)
        .then_events(&["SessionHoldKeptEvent"])
        .refuses("invalid-transition", Scenario::pause)
        .when(|s| s.release_brake(1))
        .then_status(S::Paused)
        .then(reason, &Some(PausedReason::Owner));
}

#[test]
fn session_resumes_when_its_last_brake_is_released() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .when(|s| s.pull(2, B::Pause))
        .confirms(C::Pause)
        .when(|s| s.release_brake(1))
        .then_status(S::Paused)
        .refuses("braked", Scenario::resume)
        .when(|s| s.release_brake(2))
        .then_status(S::Resuming);
}

#[test]
fn release_before_the_confirmation_resumes_after_it() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .when(|s| s.release_brake(1))
        .then_status(S::Pausing)
        .confirms(C::Pause)
        .then_event("SessionResumeRequestedEvent")
        .confirms(C::Resume)
        .then_status(S::Running);
}

#[test]
fn agent_that_ignores_the_pause_is_escalated_and_ended() {
    let timeout = Deadlines::default().stop_timeout.as_secs();
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .receives()
        .when(|s| s.clock(timeout, ProcessState::Alive))
        .then_events(&["SessionHoldEscalatedEvent", "SessionRunStopOrderedEvent"])
        .then(stage, &HoldStage::Escalated)
        .when(|s| s.die(true))
        .then_hibernated(S::Paused)
        .then(stage, &HoldStage::Confirmed)
        .then(|s| s.conv.session.hold_escalated(), &true)
        .when(|s| s.release_brake(1))
        .then_status(S::Resuming)
        .wakes()
        .confirms(C::Resume)
        .then_status(S::Running);
}

#[test]
fn command_that_is_not_received_escalates() {
    let timeout = Deadlines::default().received_timeout.as_secs();
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .when(|s| s.clock_with_heartbeats(timeout))
        .then_event("SessionCommandReissuedEvent")
        .when(|s| s.clock_with_heartbeats(timeout))
        .then_event("SessionHoldEscalatedEvent")
        .then(stage, &HoldStage::Escalated);
}

#[test]
fn held_session_is_unreachable_while_its_run_is_silent() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .when(|s| s.clock(90, ProcessState::Unreachable))
        .then_event("SessionRunUnreachableEvent")
        .then(stage, &HoldStage::Unreachable)
        .when(|s| s.clock_with_heartbeats(90))
        .then_event("SessionRunReachableEvent")
        .then(stage, &HoldStage::Requested)
        .confirms(C::Pause)
        .then(stage, &HoldStage::Confirmed);
}

#[test]
fn process_of_an_adapter_that_cannot_pause_is_ended() {
    Scenario::running()
        .observes(AgentFact::SidecarReady(Capabilities { pause: false, ..can_all() }))
        .when(|s| s.pull(1, B::Pause))
        .then_events(&["SessionHeldEvent", "SessionPauseRequestedEvent", "SessionRunStopOrderedEvent"])
        .when(|s| s.die(true))
        .then_hibernated(S::Paused)
        .then(stage, &HoldStage::Confirmed);
}

#[test]
fn kill_ends_the_process_in_every_resting_status() {
    for status in [S::Idle, S::Interrupted, S::Paused] {
        Scenario::in_status(status)
            .when(|s| s.pull(1, B::Kill))
            .then_events(&["SessionHeldEvent", "SessionRunStopOrderedEvent"])
            .then(stage, &HoldStage::Requested)
            .when(|s| s.die(true))
            .then_hibernated(status)
            .then(stage, &HoldStage::Confirmed);
    }
}

#[test]
fn held_session_keeps_its_requests_and_their_time() {
    let settings = SessionSettings { request_timeout_seconds: 600, ..settings() };
    let mut scenario = Scenario::with(settings);
    scenario.allocate();
    let scenario =
        scenario.observes(AgentFact::SidecarReady(can_all())).observes(starts("t1")).observes(asks("q1"));
    let expires = |s: &Scenario| s.conv.session.pending_requests()[0].expires_at.unwrap();
    let left = expires(&scenario).since(scenario.now);
    let scenario = scenario
        .when(|s| s.pull(1, B::Pause))
        .then_status(S::Pausing)
        .refuses("braked", |s| s.answer("q1"))
        .confirms(C::Pause)
        .then_status(S::Paused)
        .then(|s| s.conv.session.pending_requests().len(), &1)
        .when(|s| s.clock_with_heartbeats(1200))
        .then_status(S::Paused)
        .when(|s| s.release_brake(1))
        .confirms(C::Resume)
        .then_status(S::WaitingForInput);
    assert_eq!(expires(&scenario).since(scenario.now), left, "the brake takes no time from the owner");
    scenario.when(|s| s.answer("q1")).then_status(S::Running);
}

#[test]
fn killed_waiting_session_waits_again_without_a_process() {
    Scenario::running()
        .observes(asks("q1"))
        .when(|s| s.pull(1, B::Kill))
        .when(|s| s.die(true))
        .then_hibernated(S::Paused)
        .when(|s| s.release_brake(1))
        .then_events(&["SessionHoldReleasedEvent", "SessionResumeRequestedEvent", "SessionResumedEvent"])
        .then_hibernated(S::WaitingForInput)
        .when(|s| s.answer("q1"))
        .then_status(S::Idle);
}

#[test]
fn hold_applies_in_the_commit_that_resolves_the_status() {
    Scenario::in_status(S::Resuming)
        .when(|s| s.pull(1, B::Pause))
        .then_events(&["SessionHeldEvent"])
        .then_status(S::Resuming)
        .confirms(C::Resume)
        .then_event("SessionResumedEvent")
        .then_event("SessionPauseRequestedEvent")
        .then_status(S::Pausing);
    Scenario::in_status(S::Interrupting)
        .when(|s| s.pull(1, B::Pause))
        .confirms(C::Interrupt)
        .then_status(S::Interrupted)
        .then(stage, &HoldStage::Confirmed);
    Scenario::in_status(S::Pausing)
        .when(|s| s.pull(1, B::Pause))
        .confirms(C::Pause)
        .when(|s| s.release_brake(1))
        .then_status(S::Paused);
}

#[test]
fn turn_that_starts_under_a_brake_is_paused_at_once() {
    Scenario::idle()
        .when(|s| s.follow_up(1))
        .when(|s| s.pull(1, B::Pause))
        .then_status(S::Idle)
        .then(stage, &HoldStage::Requested)
        .observes(starts("t2"))
        .then_status(S::Pausing);
}

#[test]
fn messages_wait_while_a_brake_holds_the_session() {
    Scenario::idle()
        .when(|s| s.pull(1, B::Pause))
        .then(stage, &HoldStage::Confirmed)
        .when(|s| s.follow_up(1))
        .then_queue(&[1], &[])
        .when(|s| s.release_brake(1))
        .then_queue(&[1], &[1]);
}

#[test]
fn launch_is_ended_and_the_session_starts_after_the_release() {
    let scenario = Scenario::launching()
        .when(|s| s.pull(1, B::Pause))
        .then_events(&[
            "SessionHeldEvent",
            "SessionRunStopOrderedEvent",
            "SessionSlotWantedEvent",
            "SessionStartBrakedEvent",
        ])
        .observes(AgentFact::SidecarReady(can_all()))
        .then_status(S::Queued)
        .when(|s| s.die(true))
        .then_status(S::Queued)
        .then(stage, &HoldStage::Confirmed)
        .when(|s| s.release_brake(1));
    assert_eq!(scenario.conv.session.run().map(|run| run.phase), Some(RunPhase::Launching));
    scenario.wakes().then_status(S::Running);
}

#[test]
fn activity_after_the_confirmation_ends_the_process() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .confirms(C::Pause)
        .observes(said())
        .then_events(&[
            "SessionAfterStopActivityEvent",
            "SessionHoldEscalatedEvent",
            "SessionRunStopOrderedEvent",
            "AgentMessageRecordedEvent",
        ])
        .then(stage, &HoldStage::Escalated);
}

#[test]
fn held_session_can_be_cancelled() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .confirms(C::Pause)
        .when(Scenario::cancel)
        .confirms(C::Stop)
        .then_status(S::Cancelled)
        .then(|s| s.conv.session.is_held(), &false);
}

#[test]
fn turn_end_of_a_held_session_counts_after_the_release() {
    Scenario::running()
        .when(|s| s.pull(1, B::Pause))
        .observes(completes("t1"))
        .confirms(C::Pause)
        .then_status(S::Paused)
        .when(|s| s.release_brake(1))
        .confirms(C::Resume)
        .then_status(S::Idle);
}

#[test]
fn exhausted_session_stops_writing_its_document() {
    Scenario::in_status(S::ContextExhausted)
        .refuses("invalid-transition", |s| s.hold(1, B::Pause))
        .when(|s| {
            s.commit::<pilothouse_domain::session::SessionError>(|c, _| {
                c.session.stop_for_brake();
                Ok(Vec::new())
            })
        })
        .then_events(&["SessionRunStopOrderedEvent"]);
}

/// A queued session of the owner.
fn queued(n: u128) -> AgentSession {
    let mut json = serde_json::to_value(Scenario::new().conv.session).unwrap();
    json["id"] = serde_json::to_value(AgentSessionId::new(Uuid::from_u128(n))).unwrap();
    serde_json::from_value(json).unwrap()
}

struct Owner {
    pool: SessionPool,
    ids: Ids,
}

impl Owner {
    fn new() -> Self {
        Self { pool: SessionPool::default(), ids: Ids(0) }
    }

    fn allocate(&mut self, session: &mut AgentSession) -> (Allocation, Vec<SessionEvent>) {
        let mut ctx = DomainContext::new(Scenario::new().now, Deadlines::default(), &mut self.ids);
        self.pool.allocate(session, &mut ctx).unwrap()
    }

    fn pull(&mut self, n: u8, scope: BrakeScope) -> Brake {
        Brake::pull(new_brake(n, scope, B::Pause), &mut self.pool, Scenario::new().now).unwrap().0
    }
}

#[test]
fn start_under_a_brake_waits_and_the_release_starts_it() {
    let (mut owner, mut session) = (Owner::new(), queued(1));
    let mut pulled = owner.pull(1, BrakeScope::All {});
    let (allocation, events) = owner.allocate(&mut session);
    assert_eq!(allocation, Allocation::Waits);
    assert_eq!(events, [SessionEvent::StartBraked { brake_id: brake(1) }]);
    assert_eq!(owner.pool.next_waiting(), None, "the line does not move");
    assert_eq!(owner.allocate(&mut session), (Allocation::Waits, Vec::new()), "once in line");
    pulled.release(ReleasedBy::Owner, &mut owner.pool, Scenario::new().now).unwrap();
    assert_eq!(owner.pool.next_waiting(), Some(session.id()));
    assert!(matches!(owner.allocate(&mut session).0, Allocation::Allocated(_)));
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(n: u32) -> T {
    format!("0197b1c0-0000-7000-8000-{n:012}").parse().unwrap()
}

fn membership(project: u32, agent: u32, workstream: &str) -> ProjectMembership {
    ProjectMembership {
        project_id: id(project),
        agent_id: id(agent),
        workstream: WorkstreamId::parse(workstream).unwrap(),
    }
}

/// A queued session of an agent of a project.
fn of_agent(n: u128, membership: &ProjectMembership) -> AgentSession {
    let mut json = serde_json::to_value(queued(n)).unwrap();
    json["definition"]["project"] = serde_json::to_value(membership).unwrap();
    serde_json::from_value(json).unwrap()
}

#[test]
fn brake_of_a_project_a_workstream_or_an_agent_stops_its_sessions_only() {
    let [api, docs, other] = [membership(1, 11, "api"), membership(1, 12, "docs"), membership(2, 21, "api")];
    let workstream = WorkstreamId::parse("api").unwrap();
    for (scope, stopped) in [
        (BrakeScope::Project { project_id: id(1) }, [true, true, false, false]),
        (BrakeScope::Workstream { project_id: id(1), workstream }, [true, false, false, false]),
        (BrakeScope::Agent { agent_id: id(12) }, [false, true, false, false]),
    ] {
        let sessions = || [of_agent(1, &api), of_agent(2, &docs), of_agent(3, &other), queued(4)];
        // Sessions that start later wait in line, and do not block the others.
        let mut owner = Owner::new();
        owner.pull(1, scope.clone());
        let waits = sessions().map(|mut session| owner.allocate(&mut session).0 == Allocation::Waits);
        assert_eq!(waits, stopped, "{scope:?}");
        assert_eq!(owner.pool.next_waiting(), None);

        // Of those that run, the brake names those in its scope.
        let mut owner = Owner::new();
        let running = sessions().map(|mut session| {
            assert!(matches!(owner.allocate(&mut session).0, Allocation::Allocated(_)));
            session
        });
        let agents = running.iter().filter_map(|it| Some((it.id(), it.project()?.clone()))).collect();
        let mut older = unnamed(&owner.pool);
        let brake = owner.pull(1, scope.clone());
        assert_eq!(running.each_ref().map(|session| brake.holds(session.id())), stopped, "{scope:?}");
        // Leases that were stored without their holders.
        assert_eq!(older.unknown_holders(), running.iter().map(AgentSession::id).collect());
        let new = NewBrake { agents, ..new_brake(1, scope.clone(), B::Pause) };
        let brake = Brake::pull(new, &mut older, Scenario::new().now).unwrap().0;
        assert_eq!(running.map(|session| brake.holds(session.id())), stopped, "{scope:?}");
    }
}

/// A pool as it was stored before leases named their holders.
fn unnamed(pool: &SessionPool) -> SessionPool {
    let mut stored = serde_json::to_value(pool).unwrap();
    for lease in stored["leases"].as_object_mut().unwrap().values_mut() {
        assert!(lease.as_object_mut().unwrap().remove("holder").is_some());
    }
    serde_json::from_value(stored).unwrap()
}

#[test]
fn agent_that_had_no_run_is_released_alone() {
    let (api, docs) = (membership(1, 11, "api"), membership(1, 12, "docs"));
    let workstream = WorkstreamId::parse("api").unwrap();
    for scope in [
        BrakeScope::Project { project_id: id(1) },
        BrakeScope::Workstream { project_id: id(1), workstream },
        BrakeScope::Agent { agent_id: id(11) },
    ] {
        let (mut owner, mut one, mut other) = (Owner::new(), of_agent(1, &api), of_agent(2, &docs));
        let mut pulled = owner.pull(1, scope);
        owner.allocate(&mut one);
        owner.allocate(&mut other);
        let now = Scenario::new().now;
        pulled.release_sessions(&member(&one), &mut owner.pool, now).unwrap();
        assert!(matches!(owner.allocate(&mut one).0, Allocation::Allocated(_)));
        let again = pulled.release_sessions(&member(&one), &mut owner.pool, now);
        assert_eq!(again, Err(BrakeError::NotHeld { session_id: one.id() }));
        let outside = pulled.release_sessions(&member(&queued(3)), &mut owner.pool, now);
        assert_eq!(outside, Err(BrakeError::NotHeld { session_id: queued(3).id() }));
    }
}

/// A session to release, with its agent.
fn member(session: &AgentSession) -> BTreeMap<AgentSessionId, Option<ProjectMembership>> {
    BTreeMap::from([(session.id(), session.project().cloned())])
}

#[test]
fn released_session_of_a_project_stays_released_in_its_continuation() {
    let api = membership(1, 11, "api");
    let (mut owner, mut first, mut next) = (Owner::new(), of_agent(1, &api), of_agent(2, &api));
    owner.allocate(&mut first);
    let mut pulled = owner.pull(1, BrakeScope::Project { project_id: id(1) });
    pulled.release_sessions(&member(&first), &mut owner.pool, Scenario::new().now).unwrap();
    let mut ctx = DomainContext::new(Scenario::new().now, Deadlines::default(), &mut owner.ids);
    let (allocation, _) = owner.pool.transfer(first.id(), &mut next, &mut ctx).unwrap();
    assert!(matches!(allocation, Allocation::Allocated(_)), "{allocation:?}");
    let mut third = of_agent(3, &api);
    assert_eq!(owner.allocate(&mut third).0, Allocation::Waits, "another session is not released");
}

#[test]
fn braked_session_does_not_block_the_line() {
    let (mut owner, mut braked, mut free) = (Owner::new(), queued(1), queued(2));
    owner.pull(1, BrakeScope::Session { session_id: braked.id() });
    assert_eq!(owner.allocate(&mut braked).0, Allocation::Waits);
    assert!(matches!(owner.allocate(&mut free).0, Allocation::Allocated(_)));
    assert_eq!(owner.pool.waiting().len(), 1, "the braked session keeps its place");
}

#[test]
fn continuation_does_not_escape_the_brake_of_its_session() {
    let (mut owner, mut first, mut next) = (Owner::new(), queued(1), queued(2));
    owner.allocate(&mut first);
    owner.pull(1, BrakeScope::Session { session_id: first.id() });
    let mut ctx = DomainContext::new(Scenario::new().now, Deadlines::default(), &mut owner.ids);
    let (allocation, _) = owner.pool.transfer(first.id(), &mut next, &mut ctx).unwrap();
    assert_eq!(allocation, Allocation::Waits);
    assert!(owner.pool.leases().is_empty() && next.run().is_none());
}

#[test]
fn brake_names_the_sessions_that_have_a_run() {
    let (mut owner, mut running) = (Owner::new(), queued(1));
    owner.allocate(&mut running);
    let pulled = owner.pull(1, BrakeScope::All {});
    assert_eq!(pulled.session_ids().iter().copied().collect::<Vec<_>>(), [running.id()]);
    assert!(pulled.holds(running.id()) && pulled.holds(queued(2).id()), "every session of the owner");
}

#[test]
fn released_session_starts_while_the_brake_holds_the_others() {
    let (mut owner, mut one, mut other) = (Owner::new(), queued(1), queued(2));
    let mut pulled = owner.pull(1, BrakeScope::All {});
    owner.allocate(&mut other);
    owner.allocate(&mut one);
    let now = Scenario::new().now;
    pulled.release_sessions(&member(&one), &mut owner.pool, now).unwrap();
    assert_eq!(owner.pool.next_waiting(), Some(one.id()), "the one before it is still held");
    assert!(matches!(owner.allocate(&mut one).0, Allocation::Allocated(_)));
    let again = pulled.release_sessions(&member(&one), &mut owner.pool, now);
    assert_eq!(again, Err(BrakeError::NotHeld { session_id: one.id() }));
    pulled.release(ReleasedBy::Timer, &mut owner.pool, now).unwrap();
    assert_eq!(pulled.release(ReleasedBy::Owner, &mut owner.pool, now), Err(BrakeError::Over));
    assert!(owner.pool.brakes().is_empty() && !pulled.holds(other.id()));
}

#[test]
fn number_of_brakes_is_limited() {
    let mut owner = Owner::new();
    for n in 0..20 {
        owner.pull(n, BrakeScope::All {});
    }
    let one_more =
        Brake::pull(new_brake(20, BrakeScope::All {}, B::Pause), &mut owner.pool, Scenario::new().now);
    assert_eq!(one_more.unwrap_err(), BrakeError::TooMany { max: 20 });
}
