//! Decisions that no session guards (decision 81): the transition table, orphans and their policy, crashes of agents, and random histories
//! in which each decision has exactly one end.

use std::time::Duration;

use pilothouse_domain::brake::{BrakeBehavior, BrakeScope, ReleasedBy};
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::decision::{
    AutoRestartConditions, CancelReason, CrashRecoveryPolicy, Decision, DecisionKind, DecisionState,
    DecisionStatus, FreeDecision, FreeOperation as Op, FreeStatus as S, OrphanAction, OrphanActions,
    OrphanStage, OrphanedDecisionPolicy, ProposedResolution, Recovery, Resolution, ResolutionType,
    ResolvedBy,
};
use pilothouse_domain::effect::{ActionKind, Severity};
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::trust::Points;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{Brake, ProjectAgentId, SessionEvent, Timestamp, UserId};
use proptest::prelude::*;
use uuid::Uuid;

use crate::inbox::Inbox;
use crate::scenario::{Scenario, asks, ends, new_brake};
use crate::scenarios::decision_timeouts::permission;

fn agent(n: u128) -> ProjectAgentId {
    ProjectAgentId::new(Uuid::from_u128(n))
}

/// A running session of an agent of a project.
fn of_agent() -> Scenario {
    let mut scenario = Scenario::running();
    scenario.conv.session.join_project(ProjectMembership {
        project_id: pilothouse_domain::ProjectId::new(Uuid::from_u128(7)),
        agent_id: agent(8),
        workstream: WorkstreamId::parse("api").unwrap(),
    });
    scenario
}

/// The decision of a session after its end.
fn ended(asked: AgentFact, end: impl FnOnce(Scenario) -> Scenario) -> Decision {
    let mut inbox = Inbox::default();
    let scenario = of_agent().observes(asked);
    inbox.follow(&scenario.conv.session);
    let mut scenario = scenario;
    scenario.conv.session =
        serde_json::from_value(serde_json::to_value(&scenario.conv.session).unwrap()).unwrap();
    let scenario = end(scenario);
    inbox.follow(&scenario.conv.session);
    inbox.in_state(DecisionStatus::Orphaned)[0].clone()
}

fn orphan(asked: AgentFact) -> FreeDecision {
    FreeDecision::of(ended(asked, |s| s.when(|s| s.cancel()))).unwrap()
}

fn owner() -> ResolvedBy {
    ResolvedBy::Owner { id: UserId::parse("owner").unwrap() }
}

fn policy(default: OrphanAction) -> OrphanedDecisionPolicy {
    OrphanedDecisionPolicy { default, grace_period_ms: 30_000, per_subtype: OrphanActions::default() }
}

fn proposed(resolution_type: ResolutionType) -> ProposedResolution {
    ProposedResolution {
        resolution_type,
        chosen_option_id: None,
        answers: None,
        rationale: None,
        always_approve: false,
        modified_input: None,
    }
}

/// The transitions that are allowed. All others are refused.
fn specified(operation: Op) -> Vec<(S, S)> {
    match operation {
        Op::BeginGrace => vec![(S::Orphaned, S::Grace)],
        Op::Triage => vec![(S::Grace, S::Triage)],
        Op::Reassign => vec![(S::Grace, S::Reassigned)],
        Op::Resolve => [S::Pending, S::Orphaned, S::Grace, S::Triage, S::Reassigned]
            .map(|from| (from, S::Resolved))
            .into(),
        Op::AutoResolve => vec![(S::Pending, S::AutoResolved), (S::Grace, S::AutoResolved)],
        Op::Expire => vec![(S::Grace, S::Expired)],
        Op::Cancel => vec![(S::Pending, S::Cancelled)],
    }
}

#[test]
fn transition_table_allows_what_is_specified_and_nothing_else() {
    for operation in Op::ALL {
        for from in S::ALL {
            let to = specified(operation).into_iter().find(|(allowed, _)| *allowed == from).map(|(_, to)| to);
            assert_eq!(operation.next(from), to, "{operation} from {from}");
            assert!(!from.is_over() || to.is_none(), "{from} is final");
        }
    }
}

#[test]
fn kill_and_failure_orphan_the_decisions_of_an_agent() {
    let killed = ended(asks("q1"), |s| s.when(|s| s.cancel()));
    let failed = ended(asks("q1"), |s| s.observes(ends(true)));
    for (decision, reason) in
        [(killed, CancelReason::SessionCancelled), (failed, CancelReason::SessionFailed)]
    {
        let DecisionState::Orphaned { since, reason: stored, stage } = decision.state.clone() else {
            panic!("{decision:?}")
        };
        assert_eq!((stored, stage), (reason, OrphanStage::New {}));
        assert_eq!(decision.due_at(), Some(since));
        assert_eq!(decision.severity, Some(Severity::High), "a question counts as medium otherwise");
        assert!(decision.resolutions().contains(&ResolutionType::Dismiss));
    }
}

#[test]
fn without_a_project_decisions_end_with_their_session() {
    let mut inbox = Inbox::default();
    let scenario = Scenario::running().observes(asks("q1"));
    inbox.follow(&scenario.conv.session);
    let scenario = scenario.when(|s| s.cancel());
    inbox.follow(&scenario.conv.session);
    assert_eq!(inbox.in_state(DecisionStatus::Cancelled).len(), 1);
}

#[test]
fn interrupt_orphans_nothing() {
    let scenario = of_agent().observes(asks("q1")).when(|s| s.interrupt());
    let states: Vec<_> = scenario.conv.session.changed_decisions().map(Decision::status).collect();
    assert!(!states.contains(&DecisionStatus::Orphaned), "{states:?}");
}

#[test]
fn policy_of_each_mode_is_that_of_the_specification() {
    let actions = |mode| {
        let policy = OrphanedDecisionPolicy::of_mode(mode);
        assert_eq!(policy.grace_period_ms, 30_000);
        (policy.action(DecisionKind::Option), policy.action(DecisionKind::ToolApproval))
    };
    assert_eq!(actions(ControlMode::Orchestrator), (OrphanAction::Triage, OrphanAction::Triage));
    assert_eq!(actions(ControlMode::Adaptive), (OrphanAction::Triage, OrphanAction::Cancel));
    assert_eq!(actions(ControlMode::Ecosystem), (OrphanAction::Triage, OrphanAction::Cancel));
}

#[test]
fn policy_applies_after_the_grace_period() {
    let call = permission(ActionKind::Update, Severity::Low);
    let cases = [
        (asks("q1"), OrphanAction::Triage, S::Triage),
        (asks("q1"), OrphanAction::Cancel, S::Expired),
        (asks("q1"), OrphanAction::Reassign, S::Reassigned),
        (call.clone(), OrphanAction::Triage, S::Triage),
        (call.clone(), OrphanAction::Cancel, S::AutoResolved),
        (call, OrphanAction::Reassign, S::Triage),
    ];
    for (asked, action, expected) in cases {
        let mut decision = orphan(asked);
        let since = decision.decision().due_at().unwrap();
        assert!(decision.end_grace(None, since).is_err(), "the policy was not read");
        decision.begin_grace(&policy(action)).unwrap();
        assert_eq!(decision.decision().due_at(), Some(since + Duration::from_secs(30)));
        decision.end_grace(Some(agent(9)), since + Duration::from_secs(30)).unwrap();
        assert_eq!(decision.status(), expected, "{action}");
        assert_eq!(decision.decision().due_at(), None);
    }
}

#[test]
fn reassignment_without_a_replacement_waits_for_a_person() {
    let mut decision = orphan(asks("q1"));
    let now = decision.decision().due_at().unwrap();
    decision.begin_grace(&policy(OrphanAction::Reassign)).unwrap();
    decision.end_grace(None, now).unwrap();
    assert_eq!(decision.status(), S::Triage);
}

#[test]
fn policy_that_reassigns_tool_calls_is_refused() {
    let tool_approval = Some(OrphanAction::Reassign);
    let per_subtype = OrphanActions { tool_approval, ..OrphanActions::default() };
    let wrong = OrphanedDecisionPolicy {
        per_subtype,
        grace_period_ms: OrphanedDecisionPolicy::MAX_GRACE_MS + 1,
        ..policy(OrphanAction::Triage)
    };
    assert_eq!(wrong.check().unwrap_err().len(), 2);
}

#[test]
fn orphaned_call_is_decided_without_changing_or_standing() {
    let decision = orphan(permission(ActionKind::Update, Severity::Low));
    let always = ProposedResolution { always_approve: true, ..proposed(ResolutionType::Approve) };
    assert!(decision.resolution(&always).is_err());
    assert!(decision.resolution(&proposed(ResolutionType::Modify)).is_err());
    assert!(decision.resolution(&proposed(ResolutionType::Approve)).is_ok());
    assert_eq!(decision.recipient(), None, "the call is over");
    assert_eq!(orphan(asks("q1")).recipient(), Some(agent(8)));
}

#[test]
fn agent_that_takes_over_gets_the_question_and_later_the_answer() {
    let decision = orphan(asks("q1"));
    let mut other = Scenario::running();
    let orphan = decision.decision().clone();
    other
        .commit(|conv, ctx| Ok::<_, pilothouse_domain::session::SessionError>(conv.take_over(&orphan, ctx)))
        .unwrap();
    let answers = vec![pilothouse_domain::value::Answer { question: "q1?".into(), answer: "Ada".into() }];
    let resolution = Resolution::Answer { answers };
    other
        .commit(|conv, ctx| {
            Ok::<_, pilothouse_domain::session::SessionError>(conv.receive_orphan_resolution(
                &orphan,
                &resolution,
                ctx,
            ))
        })
        .unwrap();
    let resolved = |event: &SessionEvent| matches!(event, SessionEvent::OrphanResolved { .. });
    assert!(other.last.iter().any(resolved), "{:?}", other.last);
    let texts: Vec<_> = other.conv.queue.messages().iter().map(|it| it.content.as_str().to_owned()).collect();
    assert!(texts[0].contains("q1?") && texts[1].contains("Ada"), "{texts:?}");
}

#[test]
fn automatic_recovery_needs_trust_waits_longer_and_stops() {
    let conditions = AutoRestartConditions { cooldown_ms: 1000, ..AutoRestartConditions::default() };
    let policy = CrashRecoveryPolicy {
        auto_restart: true,
        auto_restart_conditions: conditions,
        prefer_resume_over_restart: true,
    };
    let now = Timestamp::from_millis(0);
    let wait = |crash, trust| policy.automatic(crash, Points::whole(trust), now).map(|it| it.at.as_millis());
    assert_eq!([1, 2, 3, 4].map(|crash| wait(crash, 70)), [Some(1000), Some(2000), Some(4000), None]);
    assert_eq!(wait(1, 69), None);
    let never = CrashRecoveryPolicy::default();
    let conditions =
        AutoRestartConditions { min_trust_score: 70, max_consecutive_crashes: 3, cooldown_ms: 30_000 };
    let stated = CrashRecoveryPolicy {
        auto_restart: false,
        auto_restart_conditions: conditions,
        prefer_resume_over_restart: true,
    };
    assert_eq!(never, stated, "the defaults");
    assert_eq!(never.automatic(1, Points::whole(100), now), None, "a person decides by default");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Resolve,
    BeginGrace,
    EndGrace(OrphanAction, bool),
    AutoResolve,
    Cancel,
    LeaveToPerson,
    Release(bool),
    /// Stores and loads it.
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let action =
        prop_oneof![Just(OrphanAction::Triage), Just(OrphanAction::Cancel), Just(OrphanAction::Reassign)];
    prop_oneof![
        1 => Just(Step::Resolve),
        2 => Just(Step::BeginGrace),
        2 => (action, any::<bool>()).prop_map(|(action, found)| Step::EndGrace(action, found)),
        1 => Just(Step::AutoResolve),
        1 => Just(Step::Cancel),
        1 => Just(Step::LeaveToPerson),
        1 => any::<bool>().prop_map(Step::Release),
        3 => Just(Step::Reload),
    ]
}

/// A decision that releases a brake, with the brake.
struct Braked {
    brake: Brake,
    pool: SessionPool,
}

fn braked() -> (FreeDecision, Braked) {
    let mut pool = SessionPool::default();
    let mut new = new_brake(1, BrakeScope::All {}, BrakeBehavior::Pause);
    new.release = pilothouse_domain::brake::ReleaseCondition::decision(new.id);
    let (brake, _) = Brake::pull(new, &mut pool, Timestamp::from_millis(0)).unwrap();
    assert_eq!(brake.release_decision_id(), Some(Brake::release_decision_of(brake.id())));
    (FreeDecision::brake_release(&brake), Braked { brake, pool })
}

proptest! {
    /// Of resolutions, timeouts, releases in other ways, and redeliveries in any order, one ends the decision, and nothing changes it
    /// afterwards. A brake is released once.
    #[test]
    fn free_decision_has_exactly_one_end(
        source in 0_u8..3,
        steps in proptest::collection::vec(step(), 1..30),
    ) {
        let (mut decision, mut braked) = match source {
            0 => (orphan(asks("q1")), None),
            1 => (orphan(permission(ActionKind::Update, Severity::Low)), None),
            _ => { let (decision, braked) = braked(); (decision, Some(braked)) }
        };
        let (mut final_state, mut ends, mut releases) = (None, 0, 0);
        for (at, step) in (1..).zip(steps) {
            let now = Timestamp::from_millis(at);
            let was_over = decision.status().is_over();
            let approve = Resolution::APPROVE;
            match step {
                Step::Resolve => {
                    let resolved = decision.resolve(approve, owner(), None, now).is_ok();
                    if let Some(Braked { brake, pool }) = braked.as_mut().filter(|_| resolved) {
                        brake.release(ReleasedBy::Decision, pool, now).unwrap();
                        releases += 1;
                    }
                }
                Step::BeginGrace => drop(decision.begin_grace(&policy(OrphanAction::Triage))),
                Step::EndGrace(action, found) => {
                    // A redelivery reads the policy again.
                    drop(decision.begin_grace(&policy(action)));
                    drop(decision.end_grace(found.then(|| agent(9)), now));
                }
                Step::AutoResolve if braked.is_none() => {
                    drop(decision.resolve(approve, ResolvedBy::OrphanPolicy, None, now));
                }
                Step::Cancel if braked.is_none() => drop(decision.cancel(CancelReason::Retried, now)),
                Step::AutoResolve | Step::Cancel => {}
                Step::LeaveToPerson => drop(decision.leave_to_person()),
                Step::Release(by_timer) => {
                    let by = if by_timer { ReleasedBy::Timer } else { ReleasedBy::Owner };
                    if let Some(Braked { brake, pool }) = &mut braked
                        && brake.release(by, pool, now).is_ok()
                    {
                        releases += 1;
                        prop_assert!(decision.cancel(CancelReason::BrakeReleased, now).is_ok());
                    }
                }
                Step::Reload => {
                    let stored = serde_json::to_value(decision.decision()).unwrap();
                    let loaded: Decision = serde_json::from_value(stored).unwrap();
                    match FreeDecision::of(loaded) {
                        Ok(loaded) => prop_assert_eq!(&loaded, &decision),
                        Err(over) => prop_assert!(over.state.is_final()),
                    }
                }
            }
            ends += u32::from(!was_over && decision.status().is_over());
            prop_assert_eq!(decision.status().is_over(), decision.decision().state.is_final());
            if let Some(state) = &final_state {
                prop_assert_eq!(state, &decision.decision().state);
            } else if decision.status().is_over() {
                final_state = Some(decision.decision().state.clone());
            }
            prop_assert!(decision.decision().due_at().is_none() || !decision.status().is_over());
            if let Some(Braked { brake, .. }) = &braked {
                prop_assert_eq!(brake.released().is_some(), decision.status().is_over());
            }
        }
        prop_assert!(ends <= 1 && releases <= 1);
    }
}

#[test]
fn recovery_options_have_the_names_of_the_specification() {
    let ids: Vec<_> = Recovery::options().into_iter().map(|option| option.id).collect();
    assert_eq!(ids, ["resume", "restart", "abandon"]);
    assert!(Recovery::ALL.iter().all(|it| Recovery::of_option(&it.to_string()) == Some(*it)));
}
