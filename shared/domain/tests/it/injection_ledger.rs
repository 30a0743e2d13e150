//! When agents receive knowledge, and what (S2, "`ContextInjection` timing policy"; decision 89).

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_domain::artifact::ArtifactKind;
use pilothouse_domain::coherence::CoherenceCategory;
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::effect::Severity;
use pilothouse_domain::injection::{
    Composed, ContextInjectionPolicy, InjectionKind, InjectionLedger, InjectionPriority, InjectionReason,
    InjectionSlot, KnownItems, PolicyViolation, ReactiveEvent, SentInjection, Timing, compose,
};
use pilothouse_domain::knowledge::{ArtifactIndexEntry, ArtifactStatus, KnowledgeSnapshot, Omitted};
use pilothouse_domain::text::{ArtifactName, MessageContent, WorkstreamId};
use pilothouse_domain::{AgentSessionId, ArtifactId, MessageId, Timestamp};
use proptest::prelude::*;
use uuid::Uuid;

const SESSION: AgentSessionId = AgentSessionId::new(Uuid::from_u128(1));
const MINUTE: Duration = Duration::from_mins(1);

fn at(minutes: u32) -> Timestamp {
    Timestamp::from_millis(0) + MINUTE * minutes
}

fn message(n: u128) -> MessageId {
    MessageId::new(Uuid::from_u128(n))
}

fn policy() -> ContextInjectionPolicy {
    ContextInjectionPolicy::of_mode(ControlMode::Adaptive)
}

fn sent(n: u128, minute: u32) -> SentInjection {
    SentInjection {
        message_id: message(n),
        session_id: SESSION,
        snapshot_version: 1,
        estimated_tokens: 100,
        priority: InjectionPriority::Recommended,
        reasons: Vec::new(),
        brief_of: None,
        known: KnownItems::default(),
        at: at(minute),
    }
}

/// A ledger with deliveries at these minutes.
fn delivered(minutes: &[u32]) -> InjectionLedger {
    let mut ledger = InjectionLedger::default();
    for (n, minute) in (1..).zip(minutes) {
        ledger.record_sent(sent(n, *minute), None, 0);
        assert!(ledger.record_delivered(message(n), at(*minute)).is_some());
    }
    ledger
}

fn artifact(n: u32, version: u32) -> ArtifactIndexEntry {
    ArtifactIndexEntry {
        id: ArtifactId::new(Uuid::from_u128(n.into())),
        name: ArtifactName::parse(format!("artifact {n}")).unwrap(),
        kind: ArtifactKind::Code,
        status: ArtifactStatus::Approved,
        workstream: WorkstreamId::parse("api").unwrap(),
        version,
    }
}

fn snapshot(artifacts: Vec<ArtifactIndexEntry>) -> KnowledgeSnapshot {
    KnowledgeSnapshot {
        snapshot_version: 3,
        generated_at: at(0),
        workstreams: Vec::new(),
        pending_decisions: Vec::new(),
        recent_coherence_issues: Vec::new(),
        artifact_index: artifacts,
        active_agents: Vec::new(),
        omitted: Omitted::default(),
        estimated_tokens: 0,
    }
}

fn delta(snapshot: &KnowledgeSnapshot, known: Option<&KnownItems>) -> Option<Composed> {
    compose(snapshot, InjectionKind::Delta, known, None, &[], None)
}

#[test]
fn default_policies_follow_the_control_mode() {
    let of = |mode| {
        let policy = ContextInjectionPolicy::of_mode(mode);
        assert_eq!(policy.check(), Ok(()));
        assert_eq!((policy.max_injections_per_hour, policy.cooldown_minutes), (12, 5));
        (policy.periodic_interval_minutes, policy.staleness_threshold)
    };
    assert_eq!(of(ControlMode::Orchestrator), (Some(10), Some(5)));
    assert_eq!(of(ControlMode::Adaptive), (Some(20), Some(10)));
    assert_eq!(of(ControlMode::Ecosystem), (Some(50), Some(20)));
}

#[test]
fn default_events_and_severity_follow_the_control_mode() {
    use ReactiveEvent as E;

    let of = |mode| {
        let policy = ContextInjectionPolicy::of_mode(mode);
        (policy.coherence_severity, policy.reactive_events.into_iter().collect::<Vec<_>>())
    };
    let orchestrator =
        [E::ArtifactApproved, E::ArtifactChanged, E::DecisionResolved, E::BrakeReleased, E::CoherenceIssue];
    assert_eq!(of(ControlMode::Orchestrator), (Severity::High, orchestrator.to_vec()));
    let adaptive = [E::ArtifactApproved, E::DecisionResolved, E::BrakeReleased];
    assert_eq!(of(ControlMode::Adaptive), (Severity::High, adaptive.to_vec()));
    let ecosystem = [E::BrakeReleased, E::CoherenceIssue];
    assert_eq!(of(ControlMode::Ecosystem), (Severity::Critical, ecosystem.to_vec()));
}

#[test]
fn policy_names_every_violation() {
    use PolicyViolation as V;

    let wrong = ContextInjectionPolicy {
        periodic_interval_minutes: Some(0),
        reactive_events: BTreeSet::new(),
        coherence_severity: Severity::High,
        staleness_threshold: Some(0),
        max_injections_per_hour: 61,
        cooldown_minutes: 1441,
    };
    assert_eq!(wrong.check(), Err(vec![V::Interval, V::Staleness, V::PerHour, V::Cooldown]));
}

#[test]
fn changed_briefs_need_no_listed_event() {
    let silent = ContextInjectionPolicy { reactive_events: BTreeSet::new(), ..policy() };
    assert!(silent.includes(&InjectionReason::BriefChanged {}));
    assert!(!silent.includes(&InjectionReason::BrakeReleased {}));
    let listed: BTreeSet<_> = [ReactiveEvent::BrakeReleased].into_iter().collect();
    assert!(
        ContextInjectionPolicy { reactive_events: listed, ..silent }
            .includes(&InjectionReason::BrakeReleased {})
    );
}

#[test]
fn only_severe_issues_are_injected() {
    let issue = |severity| InjectionReason::CoherenceIssue {
        severity,
        category: CoherenceCategory::Gap,
        workstream: WorkstreamId::parse("api").unwrap(),
    };
    let included = |mode, severity| ContextInjectionPolicy::of_mode(mode).includes(&issue(severity));
    assert!(included(ControlMode::Orchestrator, Severity::High));
    assert!(!included(ControlMode::Orchestrator, Severity::Medium));
    assert!(!included(ControlMode::Adaptive, Severity::Critical), "not listed");
    assert!(included(ControlMode::Ecosystem, Severity::Critical));
    assert!(!included(ControlMode::Ecosystem, Severity::High));
}

#[test]
fn injections_wait_for_the_end_of_the_cooldown() {
    let ledger = delivered(&[10]);
    let timing =
        |minute| ledger.timing(InjectionPriority::Recommended, &policy(), InjectionSlot::Empty, at(minute));
    assert_eq!((timing(14), timing(15)), (Timing::Later(at(15)), Timing::Now));
    let required = ledger.timing(InjectionPriority::Required, &policy(), InjectionSlot::Empty, at(11));
    assert_eq!(required, Timing::Now);
}

#[test]
fn injection_in_flight_counts_for_the_cooldown() {
    let mut ledger = InjectionLedger::default();
    ledger.record_sent(sent(1, 10), None, 0);
    let timing = |slot| ledger.timing(InjectionPriority::Recommended, &policy(), slot, at(11));
    assert_eq!(timing(InjectionSlot::InFlight), Timing::Later(at(15)));
    assert_eq!(timing(InjectionSlot::Waiting), Timing::Now, "one that waits is replaced");
}

#[test]
fn more_injections_than_in_an_hour_are_dropped() {
    let policy = ContextInjectionPolicy { max_injections_per_hour: 2, cooldown_minutes: 0, ..policy() };
    let ledger = delivered(&[10, 20]);
    let timing = |priority, minute| ledger.timing(priority, &policy, InjectionSlot::Empty, at(minute));
    assert_eq!(timing(InjectionPriority::Recommended, 69), Timing::Dropped);
    assert_eq!(timing(InjectionPriority::Supplementary, 69), Timing::Dropped);
    assert_eq!(timing(InjectionPriority::Required, 69), Timing::Now);
    assert_eq!(timing(InjectionPriority::Recommended, 70), Timing::Now);
}

#[test]
fn delivery_is_recorded_once_and_later_than_older_ones() {
    let mut ledger = InjectionLedger::default();
    ledger.record_sent(sent(1, 1), None, 0);
    ledger.record_sent(sent(2, 2), None, 0);
    assert_eq!(ledger.record_delivered(message(2), at(3)).unwrap().estimated_tokens, 100);
    assert_eq!(ledger.record_delivered(message(2), at(4)), None);
    assert_eq!(ledger.record_delivered(message(1), at(4)), None);
    assert!(ledger.known_in(SESSION).is_some());
    assert!(ledger.known_in(AgentSessionId::new(Uuid::from_u128(2))).is_none(), "another conversation");
}

#[test]
fn lost_injection_makes_the_next_one_complete() {
    let mut ledger = delivered(&[1]);
    ledger.record_sent(sent(7, 2), None, 0);
    assert!(ledger.record_lost(message(7)) && !ledger.record_lost(message(7)));
    assert!(ledger.known_in(SESSION).is_none());
}

#[test]
fn postponed_reasons_are_due_after_the_cooldown() {
    let mut ledger = InjectionLedger::default();
    let reason = InjectionReason::BrakeReleased {};
    ledger.postpone(InjectionKind::Delta, std::slice::from_ref(&reason), at(5));
    let once = ledger.clone();
    ledger.postpone(InjectionKind::Delta, std::slice::from_ref(&reason), at(6));
    assert_eq!(ledger, once, "known already");
    assert_eq!(ledger.due_at(), Some(at(5)));
    assert_eq!(ledger.take_due(&policy(), None, at(4)), None);
    assert_eq!(ledger.take_due(&policy(), None, at(5)), Some((InjectionKind::Delta, vec![reason])));
    assert_eq!(ledger.due_at(), None);
}

#[test]
fn resting_agent_has_no_timer() {
    let mut ledger = InjectionLedger::default();
    assert!(ledger.start_checks(&policy(), at(0)) && !ledger.start_checks(&policy(), at(1)));
    assert_eq!(ledger.due_at(), Some(at(5)));
    assert_eq!(ledger.take_due(&policy(), None, at(5)), None);
    assert_eq!(ledger.due_at(), None);
}

#[test]
fn working_agent_is_updated_regularly() {
    let mut ledger = InjectionLedger::default();
    ledger.start_checks(&policy(), at(0));
    for minute in [5, 10, 15] {
        assert_eq!(ledger.take_due(&policy(), Some(9), at(minute)), None, "minute {minute}");
    }
    let due = ledger.take_due(&policy(), Some(9), at(20));
    assert_eq!(due, Some((InjectionKind::All, vec![InjectionReason::Periodic {}])));
}

#[test]
fn agent_that_missed_many_events_is_updated() {
    let mut ledger = InjectionLedger::default();
    ledger.start_checks(&policy(), at(0));
    let due = ledger.take_due(&policy(), Some(10), at(5));
    assert_eq!(due, Some((InjectionKind::All, vec![InjectionReason::Stale {}])));
    ledger.record_sent(sent(1, 5), None, 10);
    assert_eq!(ledger.take_due(&policy(), Some(19), at(10)), None, "the count begins anew");
}

#[test]
fn reactive_policy_needs_no_timer() {
    let reactive =
        ContextInjectionPolicy { periodic_interval_minutes: None, staleness_threshold: None, ..policy() };
    assert!(!InjectionLedger::default().start_checks(&reactive, at(0)));
}

#[test]
fn injection_contains_what_changed_and_nothing_twice() {
    let first = delta(&snapshot(vec![artifact(1, 1), artifact(2, 1)]), None).unwrap();
    assert!(first.content.as_str().contains("artifact 1") && first.content.as_str().contains("artifact 2"));
    assert!(delta(&snapshot(vec![artifact(1, 1), artifact(2, 1)]), Some(&first.known)).is_none());
    let second = delta(&snapshot(vec![artifact(1, 2), artifact(2, 1)]), Some(&first.known)).unwrap();
    assert!(second.content.as_str().contains("version 2") && !second.content.as_str().contains("artifact 2"));
    let all = compose(
        &snapshot(vec![artifact(1, 2), artifact(2, 1)]),
        InjectionKind::All,
        Some(&first.known),
        None,
        &[],
        None,
    );
    assert!(all.unwrap().content.as_str().contains("artifact 2"));
}

#[test]
fn omitted_items_follow_with_the_next_injection() {
    let many = snapshot((0..100).map(|n| artifact(n, 1)).collect());
    let first = delta(&many, None).unwrap();
    assert!(first.content.as_str().contains("further entries are omitted"));
    let second = delta(&many, Some(&first.known)).unwrap();
    assert!(
        second.content.as_str().contains("artifact 40") && !second.content.as_str().contains("artifact 0\"")
    );
}

#[test]
fn injection_fits_the_context_budget_and_the_rest_follows() {
    let many = snapshot((0..20).map(|n| artifact(n, 1)).collect());
    let within =
        |known: Option<&KnownItems>, room| compose(&many, InjectionKind::Delta, known, None, &[], Some(room));
    assert_eq!(within(None, 50), None, "there is no room for an item");
    let first = within(None, 300).unwrap();
    assert!(first.estimated_tokens <= 300, "{}", first.estimated_tokens);
    assert!(
        first.content.as_str().contains("artifact 0\"") && !first.content.as_str().contains("artifact 19")
    );
    let rest = within(Some(&first.known), 5_000).unwrap();
    assert!(rest.content.as_str().contains("artifact 19") && !rest.content.as_str().contains("artifact 0\""));
    let brief = compose(&many, InjectionKind::Delta, None, Some("Build it."), &[], Some(0)).unwrap();
    assert!(brief.content.as_str().contains("Build it."), "a brief is always sent");
}

proptest! {
    /// An agent that works and receives whatever may be sent gets at most the injections of an hour, with the cooldown between two.
    #[test]
    fn limits_hold_for_any_order_of_events(
        steps in prop::collection::vec((0_u32..9, any::<bool>(), any::<bool>()), 1..120),
        max in 0_u32..6,
        cooldown in 0_u32..12,
    ) {
        let policy = ContextInjectionPolicy { max_injections_per_hour: max, cooldown_minutes: cooldown, ..policy() };
        let (mut ledger, mut now, mut deliveries) = (InjectionLedger::default(), at(0), Vec::<Timestamp>::new());
        for (n, (minutes, is_urgent, delivers)) in (1..).zip(steps) {
            now = now + MINUTE * minutes;
            let priority = if is_urgent { InjectionPriority::Recommended } else { InjectionPriority::Supplementary };
            match ledger.timing(priority, &policy, InjectionSlot::Empty, now) {
                Timing::Now if delivers => {
                    ledger.record_sent(SentInjection { at: now, ..sent(n, 0) }, None, 0);
                    prop_assert!(ledger.record_delivered(message(n), now).is_some());
                    if let Some(last) = deliveries.last() {
                        prop_assert!(now.since(*last) >= policy.cooldown());
                    }
                    deliveries.push(now);
                }
                Timing::Later(until) => prop_assert!(until > now && until.since(now) <= policy.cooldown()),
                Timing::Now => {}
                Timing::Dropped => {
                    let recent = deliveries.iter().filter(|at| now.since(**at) < Duration::from_hours(1));
                    prop_assert_eq!(recent.count(), max as usize, "only the limit drops an injection");
                }
            }
            let recent = deliveries.iter().filter(|at| now.since(**at) < Duration::from_hours(1));
            prop_assert!(recent.count() <= max as usize);
        }
    }

    /// After any number of injections an agent knows all items, and then receives no more.
    #[test]
    fn agents_learn_everything_in_finitely_many_injections(
        versions in prop::collection::vec(1_u32..5, 0..150),
        known in prop::collection::vec(1_u32..5, 0..150),
    ) {
        let of = |versions: &[u32]| snapshot((0..).zip(versions).map(|(n, version)| artifact(n, *version)).collect());
        let mut state = delta(&of(&known), None).map(|first| first.known);
        let now = of(&versions);
        let mut rounds = 0;
        while let Some(next) = delta(&now, state.as_ref()) {
            prop_assert!(next.content.as_str().chars().count() <= MessageContent::MAX);
            prop_assert!(next.estimated_tokens > 0);
            state = Some(next.known);
            rounds += 1;
            prop_assert!(rounds <= 10, "{rounds}");
        }
    }
}
