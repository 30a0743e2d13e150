//! Timeouts of decisions (decision 70).

use pilothouse_domain::control_mode::ControlMode as M;
use pilothouse_domain::decision::{
    DecisionKind as D, DecisionTimeoutPolicy, InvalidTimeout, OnTimeout, TimedDecision, TimeoutAction as A,
    TimeoutOverrides,
};
use pilothouse_domain::effect::{ActionKind as K, BlastRadius as B, Effect, Effects, Severity as S};
use pilothouse_domain::tick::Tick;

const NOW: Tick = Tick::new(100);

fn policy(on_timeout: OnTimeout) -> DecisionTimeoutPolicy {
    DecisionTimeoutPolicy { timeout_ticks: Some(20), on_timeout, max_extensions: 2 }
}

fn decision(kind: D, effects: Option<&Effects>) -> TimedDecision<'_> {
    let (severity, blast_radius) = (S::Low, B::Small);
    TimedDecision {
        kind,
        severity,
        blast_radius,
        effects,
        has_recommendation: true,
        requires_rationale: false,
        extensions: 0,
    }
}

fn escalated(severity: S) -> A {
    A::Escalate { severity, due: Some(Tick::new(120)) }
}

#[test]
fn the_most_specific_policy_applies() {
    let of = |ticks| Some(DecisionTimeoutPolicy { timeout_ticks: Some(ticks), ..policy(OnTimeout::Cancel) });
    let ticks = |overrides| DecisionTimeoutPolicy::effective(M::Adaptive, &overrides).timeout_ticks;
    assert_eq!(ticks(TimeoutOverrides { decision: of(1), brief: of(2), project: of(3) }), Some(1));
    assert_eq!(ticks(TimeoutOverrides { decision: None, brief: of(2), project: of(3) }), Some(2));
    assert_eq!(ticks(TimeoutOverrides { decision: None, brief: None, project: of(3) }), Some(3));
    assert_eq!(ticks(TimeoutOverrides::default()), Some(50));
    assert_eq!(DecisionTimeoutPolicy::of_mode(M::Orchestrator).due(NOW), None);
    assert_eq!(DecisionTimeoutPolicy::of_mode(M::Ecosystem).due(NOW), Some(Tick::new(120)));
}

#[test]
fn each_mode_has_its_default_timeout() {
    for (mode, timeout_ticks, on_timeout) in [
        (M::Orchestrator, None, OnTimeout::Escalate),
        (M::Adaptive, Some(50), OnTimeout::Escalate),
        (M::Ecosystem, Some(20), OnTimeout::AutoRecommend),
    ] {
        let expected = DecisionTimeoutPolicy { timeout_ticks, on_timeout, max_extensions: 2 };
        assert_eq!(DecisionTimeoutPolicy::of_mode(mode), expected, "{mode}");
    }
}

#[test]
fn recommendations_are_taken_only_for_harmless_decisions() {
    let auto = |decision: &TimedDecision<'_>| policy(OnTimeout::AutoRecommend).on_timeout(decision, NOW);
    let call = |kind, severity, radius| {
        let effects = Effects::one(Effect::new(kind, severity, radius));
        auto(&decision(D::ToolApproval, Some(&effects)))
    };
    assert_eq!(call(K::Update, S::Medium, B::Large), A::AutoResolve);
    for (kind, severity, radius) in [
        (K::Update, S::High, B::Small),
        (K::Delete, S::Low, B::Small),
        (K::Deploy, S::Low, B::Small),
        (K::Update, S::Low, B::Unknown),
    ] {
        assert_eq!(call(kind, severity, radius), escalated(S::Medium));
    }
    assert_eq!(auto(&decision(D::ToolApproval, None)), escalated(S::Medium), "nothing is known about it");
    let harmless = Effects::one(Effect::new(K::Update, S::Low, B::Small));
    let explained = TimedDecision { requires_rationale: true, ..decision(D::ToolApproval, Some(&harmless)) };
    assert_eq!(auto(&explained), escalated(S::Medium), "only a person can give the reason");
    assert_eq!(auto(&decision(D::Option, None)), A::AutoResolve);
    let without = TimedDecision { has_recommendation: false, ..decision(D::Option, None) };
    assert_eq!(auto(&without), escalated(S::Medium));
    let severe = TimedDecision { severity: S::High, ..decision(D::Option, None) };
    assert_eq!(auto(&severe), escalated(S::Critical));
    for kind in [D::Question, D::Plan, D::OutputReview] {
        assert_eq!(auto(&decision(kind, None)), escalated(S::Medium));
    }
}

#[test]
fn escalation_ends_in_a_cancellation() {
    let critical = TimedDecision { severity: S::Critical, ..decision(D::Option, None) };
    assert_eq!(policy(OnTimeout::Escalate).on_timeout(&critical, NOW), A::Cancel);
    assert_eq!(policy(OnTimeout::Cancel).on_timeout(&decision(D::Option, None), NOW), A::Cancel);
}

#[test]
fn extensions_end_in_an_escalation() {
    let extended = |extensions| {
        let decision = TimedDecision { extensions, ..decision(D::Option, None) };
        policy(OnTimeout::Extend).on_timeout(&decision, NOW)
    };
    assert_eq!(extended(1), A::Extend { due: Some(Tick::new(120)) });
    assert_eq!(extended(2), escalated(S::Medium));
}

#[test]
fn every_violation_of_a_timeout_policy_is_named() {
    let text = r#"{ "timeoutTicks": 0, "onTimeout": "auto_recommend", "maxExtensions": 101 }"#;
    let policy: DecisionTimeoutPolicy = serde_json::from_str(text).unwrap();
    assert_eq!(policy.check(), Err(vec![InvalidTimeout::Ticks, InvalidTimeout::Extensions]));
}
