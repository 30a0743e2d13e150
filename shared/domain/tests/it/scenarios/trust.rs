//! Trust of an agent (S2, "Trust score update rules"; decision 68).

use pilothouse_domain::effect::{ActionKind, Severity};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::trust::{
    Autonomy, AutonomyChange, AutonomyPolicy, InvalidCalibration, JudgedAction, Points, Rate,
    ReportedOutcome, RevocationReason, TrustCalibrationConfig, TrustCalibrationProfile, TrustEntry,
    TrustOutcome as O, TrustProfile, TrustProfileName, simulate,
};
use pilothouse_domain::{DecisionId, Timestamp};
use serde_json::json;
use uuid::Uuid;

pub(crate) struct TrustScenario {
    pub(crate) trust: TrustProfile,
    pub(crate) profile: TrustCalibrationProfile,
    pub(crate) tick: Tick,
    pub(crate) history: Vec<TrustEntry>,
}

pub(crate) fn points(text: &str) -> Points {
    text.parse().unwrap()
}

impl TrustScenario {
    pub(crate) fn given(profile: TrustCalibrationProfile) -> Self {
        let trust = TrustProfile::new(&profile, Tick::ZERO);
        Self { trust, profile, tick: Tick::ZERO, history: Vec::new() }
    }

    fn balanced_at(score: &str) -> Self {
        let mut profile = TrustCalibrationProfile::default();
        profile.config.initial_score = points(score);
        Self::given(profile)
    }

    pub(crate) fn after_ticks(mut self, ticks: u64) -> Self {
        self.tick = self.tick.plus(ticks);
        self
    }

    pub(crate) fn when(self, outcome: O) -> Self {
        self.judged(outcome, None)
    }

    pub(crate) fn judged(mut self, outcome: O, action: Option<JudgedAction>) -> Self {
        let decision_id = Some(DecisionId::new(Uuid::from_u128(7)));
        let reported = ReportedOutcome { outcome, decision_id, action };
        self.history.push(self.trust.record(reported, self.tick, &self.profile));
        self
    }

    fn update(self, times: usize, outcome: O) -> Self {
        let action = Some(JudgedAction::new(ActionKind::Update, Severity::Medium));
        (0..times).fold(self, |scenario, _| scenario.judged(outcome, action))
    }

    pub(crate) fn score(&self) -> Points {
        self.trust.score(self.tick, &self.profile)
    }

    fn then_score(self, expected: &str) -> Self {
        assert_eq!(self.score(), points(expected));
        self
    }
}

#[test]
fn each_outcome_changes_the_score_by_the_table() {
    let table = [
        (O::HumanApprovesRecommendedOption, "52"),
        (O::HumanApprovesToolCall, "51"),
        (O::HumanApprovesAlways, "53"),
        (O::HumanPicksNonRecommended, "49"),
        (O::HumanModifiesToolArgs, "49"),
        (O::HumanRejectsToolCall, "48"),
        (O::HumanOverridesViaBrake, "47"),
        (O::ArtifactApproved, "51"),
        (O::ArtifactRejected, "48"),
        (O::CoherenceIssueConfirmed, "51"),
        (O::CoherenceIssueMissed, "48"),
        (O::DecisionAutoResolved, "50"),
        (O::TaskCompletedSuccess, "51"),
        (O::TaskCompletedPartial, "50"),
        (O::TaskAbandonedOrMaxTurns, "49"),
    ];
    assert_eq!(table.map(|(outcome, _)| outcome), O::ALL);
    for (outcome, expected) in table {
        TrustScenario::balanced_at("50").when(outcome).then_score(expected);
    }
}

#[test]
fn changes_are_halved_beyond_the_thresholds_and_not_lost() {
    TrustScenario::balanced_at("90").when(O::HumanModifiesToolArgs).then_score("89");
    TrustScenario::balanced_at("90.001").when(O::HumanModifiesToolArgs).then_score("89.501");
    TrustScenario::balanced_at("95").when(O::HumanApprovesAlways).then_score("96.5");
    TrustScenario::balanced_at("20").when(O::HumanRejectsToolCall).then_score("18");
    TrustScenario::balanced_at("19.999").when(O::HumanRejectsToolCall).then_score("18.999");
    TrustScenario::balanced_at("15").when(O::HumanApprovesAlways).then_score("16.5");
}

#[test]
fn scores_stay_between_floor_and_ceiling() {
    TrustScenario::balanced_at("99.9").when(O::HumanApprovesAlways).then_score("100");
    TrustScenario::balanced_at("10.5").when(O::HumanOverridesViaBrake).then_score("10");
}

#[test]
fn severity_weighs_the_change() {
    let action = |severity| Some(JudgedAction::new(ActionKind::Deploy, severity));
    for (severity, gained, lost) in [
        (Severity::Warning, "51.5", "49"),
        (Severity::Low, "51.5", "49"),
        (Severity::Medium, "53", "48"),
        (Severity::High, "54.5", "47"),
        (Severity::Critical, "56", "46"),
    ] {
        let scenario = || TrustScenario::balanced_at("50");
        scenario().judged(O::HumanApprovesAlways, action(severity)).then_score(gained);
        scenario().judged(O::HumanRejectsToolCall, action(severity)).then_score(lost);
    }
}

#[test]
fn a_reported_severity_weighs_losses_only() {
    let action = JudgedAction {
        reported_severity: Some(Severity::Critical),
        ..JudgedAction::new(ActionKind::Read, Severity::Low)
    };
    let scenario = || TrustScenario::balanced_at("50");
    scenario().judged(O::HumanApprovesToolCall, Some(action)).then_score("50.5");
    scenario().judged(O::HumanRejectsToolCall, Some(action)).then_score("46");
}

#[test]
fn profiles_have_the_values_of_the_specification() {
    for (name, initial, decay, lost, gained) in [
        (TrustProfileName::Conservative, "30", "0.02", "27", "31.5"),
        (TrustProfileName::Balanced, "50", "0.01", "48", "52"),
        (TrustProfileName::Permissive, "70", "0.005", "69", "72.5"),
    ] {
        let profile = TrustCalibrationProfile::preset(name);
        assert_eq!(profile.check(), Ok(()));
        assert_eq!(profile.config.decay_rate_per_tick, points(decay));
        let scenario = || TrustScenario::given(profile.clone()).then_score(initial);
        scenario().when(O::HumanRejectsToolCall).then_score(lost);
        scenario().when(O::HumanApprovesRecommendedOption).then_score(gained);
    }
}

#[test]
fn a_table_of_the_project_takes_precedence_over_multipliers() {
    let mut profile = TrustCalibrationProfile::preset(TrustProfileName::Conservative);
    profile.config.delta_table.insert(O::HumanRejectsToolCall, points("-0.25"));
    let scenario = TrustScenario::given(profile).when(O::HumanRejectsToolCall).then_score("29.75");
    assert!(scenario.history[0].rule.overridden);
}

#[test]
fn scores_drift_towards_the_target_while_inactive() {
    TrustScenario::balanced_at("80").after_ticks(100).then_score("79").after_ticks(50).then_score("78.5");
    TrustScenario::balanced_at("80").after_ticks(1_000_000).then_score("50");
    TrustScenario::balanced_at("25").after_ticks(100).then_score("26").after_ticks(u64::MAX).then_score("50");
}

#[test]
fn decay_alone_does_not_pass_the_decay_ceiling() {
    let mut profile = TrustCalibrationProfile::default();
    profile.config.decay_ceiling = points("30");
    profile.config.initial_score = points("25");
    TrustScenario::given(profile.clone()).after_ticks(u64::MAX).then_score("30");
    profile.config.initial_score = points("40");
    TrustScenario::given(profile.clone()).after_ticks(u64::MAX).then_score("40");
    profile.config.initial_score = points("70");
    TrustScenario::given(profile).after_ticks(u64::MAX).then_score("50");
}

#[test]
fn an_outcome_applies_after_decay() {
    let scenario =
        TrustScenario::balanced_at("80").after_ticks(100).when(O::HumanApprovesToolCall).then_score("80");
    assert_eq!((scenario.history[0].before, scenario.history[0].after), (points("79"), points("80")));
}

#[test]
fn calibration_mode_freezes_the_score_and_shows_a_hypothetical_one() {
    let mut profile = TrustCalibrationProfile::default();
    profile.config.initial_score = points("80");
    profile.config.calibration_mode = true;
    let scenario =
        TrustScenario::given(profile).after_ticks(100).when(O::HumanRejectsToolCall).then_score("80");
    assert_eq!(scenario.trust.hypothetical_score(scenario.tick, &scenario.profile), Some(points("77")));
    let entry = &scenario.history[0];
    let shown = (entry.before, entry.after, entry.frozen_score);
    assert_eq!(shown, (points("79"), points("77"), Some(points("80"))));
}

#[test]
fn the_frozen_score_continues_after_calibration_mode() {
    let mut scenario = TrustScenario::balanced_at("80").after_ticks(100);
    let live = scenario.profile.clone();
    scenario.profile.config.calibration_mode = true;
    scenario.trust.reconfigure(&live, &scenario.profile, scenario.tick);
    let mut scenario = scenario.after_ticks(1000).when(O::HumanOverridesViaBrake).then_score("79");
    scenario.trust.reconfigure(&scenario.profile, &live, scenario.tick);
    scenario.profile = live;
    let scenario = scenario.then_score("79").after_ticks(100).then_score("78");
    assert_eq!(scenario.trust.hypothetical_score(scenario.tick, &scenario.profile), None);
}

#[test]
fn an_outcome_starts_and_ends_calibration_that_the_agent_missed() {
    let mut scenario = TrustScenario::balanced_at("60");
    scenario.profile.config.calibration_mode = true;
    let mut scenario = scenario.when(O::HumanRejectsToolCall).then_score("60");
    scenario.profile.config.calibration_mode = false;
    scenario.when(O::HumanRejectsToolCall).then_score("58");
}

#[test]
fn a_changed_decay_rate_applies_from_the_change_on() {
    let mut scenario = TrustScenario::balanced_at("80").after_ticks(100);
    let old = scenario.profile.clone();
    scenario.profile.config.decay_rate_per_tick = points("1");
    scenario.trust.reconfigure(&old, &scenario.profile, scenario.tick);
    scenario.then_score("79").after_ticks(3).then_score("76");
}

#[test]
fn history_names_decision_and_rule() {
    let scenario = TrustScenario::balanced_at("50").update(1, O::HumanRejectsToolCall);
    assert_eq!(
        serde_json::to_value(&scenario.history[0]).unwrap(),
        json!({
            "outcome": "human_rejects_tool_call",
            "decisionId": "00000000-0000-0000-0000-000000000007",
            "action": { "actionKind": "update", "severity": "medium" },
            "tick": 0,
            "before": 50,
            "after": 48,
            "rule": {
                "base": -2, "overridden": false, "multiplier": 1, "riskWeight": 1, "halved": false, "delta": -2,
            },
        })
    );
    let mut profile = TrustCalibrationProfile::preset(TrustProfileName::Conservative);
    profile.config.initial_score = points("15");
    let critical = Some(JudgedAction::new(ActionKind::Delete, Severity::Critical));
    let scenario = TrustScenario::given(profile).judged(O::HumanRejectsToolCall, critical);
    let text = "-2 by the table, × 1.5 (profile), × 2 (risk), halved at the extreme: -3";
    assert_eq!(scenario.history[0].rule.to_string(), text);
}

#[test]
fn trust_survives_storage() {
    let mut scenario = TrustScenario::balanced_at("61.317").update(3, O::HumanApprovesToolCall);
    scenario.profile.config.calibration_mode = true;
    let scenario = scenario.when(O::ArtifactApproved);
    let text = serde_json::to_string(&scenario.trust).unwrap();
    assert_eq!(serde_json::from_str::<TrustProfile>(&text).unwrap(), scenario.trust);
    let text = serde_json::to_string(&scenario.profile).unwrap();
    assert_eq!(serde_json::from_str::<TrustCalibrationProfile>(&text).unwrap(), scenario.profile);
}

#[test]
fn partial_configuration_gets_defaults() {
    let config: TrustCalibrationConfig = serde_json::from_value(
        json!({ "decayRatePerTick": 0.02, "deltaTable": { "artifact_approved": 1.5 } }),
    )
    .unwrap();
    assert_eq!(config.initial_score, points("50"));
    assert_eq!(config.decay_rate_per_tick, points("0.02"));
    assert!(serde_json::from_value::<TrustCalibrationConfig>(json!({ "decayRate": 1 })).is_err());
}

#[test]
fn every_violation_of_a_configuration_is_named() {
    let json = json!({
        "initialScore": 5, "floorScore": 10, "ceilingScore": 101, "decayCeiling": 120, "decayRatePerTick": -1,
        "diminishingReturnThresholdHigh": 20, "diminishingReturnThresholdLow": 30,
        "deltaTable": { "artifact_approved": 500 }, "riskWeights": { "high": 11 },
        "autonomy": { "proposeAt": 0.5, "revokeBelow": 0.6 },
    });
    let config: TrustCalibrationConfig = serde_json::from_value(json).unwrap();
    let found: Vec<_> = config.check().unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "ceilingScore must be from 0 to 100",
            "decayCeiling must be from 0 to 100",
            "initialScore must be from floorScore to ceilingScore",
            "diminishingReturnThresholdLow must not be above diminishingReturnThresholdHigh",
            "decayRatePerTick must be from 0 to 100",
            "deltaTable.artifact_approved must be from -100 to 100",
            "riskWeights.high must be from 0 to 10",
            "autonomy.revokeBelow must not be above autonomy.proposeAt",
        ]
    );
    let out_of_range = json!({
        "decayTargetScore": 150, "diminishingReturnThresholdHigh": 101, "diminishingReturnThresholdLow": -1,
    });
    let config: TrustCalibrationConfig = serde_json::from_value(out_of_range).unwrap();
    let found: Vec<_> = config.check().unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "decayTargetScore must be from 0 to 100",
            "diminishingReturnThresholdHigh must be from 0 to 100",
            "diminishingReturnThresholdLow must be from 0 to 100",
        ]
    );
    let crossed = TrustCalibrationConfig { floor_score: points("100"), ..Default::default() };
    assert_eq!(crossed.check(), Err(vec![InvalidCalibration::FloorNotBelowCeiling]));
}

#[test]
fn ranges_of_a_configuration_include_their_limits_only() {
    let found = |json: serde_json::Value| -> Vec<String> {
        let config: TrustCalibrationConfig = serde_json::from_value(json).unwrap();
        config.check().err().unwrap_or_default().iter().map(ToString::to_string).collect()
    };
    let none: [String; 0] = [];
    let lowest = json!({
        "floorScore": 0, "initialScore": 0, "decayTargetScore": 0, "decayCeiling": 0, "decayRatePerTick": 0,
        "diminishingReturnThresholdHigh": 0, "diminishingReturnThresholdLow": 0,
        "deltaTable": { "artifact_approved": -100 }, "riskWeights": { "high": 0 },
        "escalateBelowApprovalRate": 0, "autonomy": { "proposeAt": 0, "revokeBelow": 0 },
    });
    assert_eq!(found(lowest), none);
    let highest = json!({
        "ceilingScore": 100, "initialScore": 100, "decayTargetScore": 100, "decayCeiling": 100,
        "decayRatePerTick": 100, "diminishingReturnThresholdHigh": 100, "diminishingReturnThresholdLow": 100,
        "deltaTable": { "artifact_approved": 100 }, "riskWeights": { "high": 10 },
        "escalateBelowApprovalRate": 1, "autonomy": { "proposeAt": 1, "revokeBelow": 1 },
    });
    assert_eq!(found(highest), none);
    let beyond = json!({
        "floorScore": -0.001, "initialScore": -0.001, "decayRatePerTick": 100.001,
        "deltaTable": { "artifact_approved": -100.001 }, "riskWeights": { "high": 10.001 },
    });
    assert_eq!(
        found(beyond),
        [
            "floorScore must be from 0 to 100",
            "initialScore must be from 0 to 100",
            "decayRatePerTick must be from 0 to 100",
            "deltaTable.artifact_approved must be from -100 to 100",
            "riskWeights.high must be from 0 to 10",
        ]
    );
    let within = json!({ "floorScore": 20, "ceilingScore": 80, "decayTargetScore": 20, "decayCeiling": 80 });
    assert_eq!(found(within), none);
    let outside = json!({ "floorScore": 20, "ceilingScore": 80, "decayTargetScore": 19, "decayCeiling": 81 });
    let expected = ["decayTargetScore", "decayCeiling"]
        .map(|field| format!("{field} must be from floorScore to ceilingScore"));
    assert_eq!(found(outside), expected);
    for wrong in
        [json!({ "escalateBelowApprovalRate": 1.001 }), json!({ "autonomy": { "proposeAt": 1.001 } })]
    {
        assert!(serde_json::from_value::<TrustCalibrationConfig>(wrong.clone()).is_err(), "{wrong}");
    }

    let multiplied = |factor: &str| TrustCalibrationProfile {
        negative_delta_multiplier: factor.parse().unwrap(),
        positive_delta_multiplier: factor.parse().unwrap(),
        ..TrustCalibrationProfile::default()
    };
    assert_eq!((multiplied("0").check(), multiplied("10").check()), (Ok(()), Ok(())));
    let wrong = ["negativeDeltaMultiplier", "positiveDeltaMultiplier"]
        .map(|field| InvalidCalibration::FactorOutOfRange { field: field.to_owned() });
    assert_eq!(multiplied("10.001").check(), Err(wrong.to_vec()));
}

fn with_autonomy() -> TrustScenario {
    let mut profile = TrustCalibrationProfile::default();
    profile.config.autonomy = Some(AutonomyPolicy::default());
    TrustScenario::given(profile)
}

fn proposed(scenario: &TrustScenario) -> usize {
    let changes = scenario.history.iter().flat_map(|entry| &entry.autonomy);
    changes.filter(|change| matches!(change, AutonomyChange::Proposed { .. })).count()
}

#[test]
fn autonomy_is_proposed_once_and_granted_by_a_person() {
    let mut scenario = with_autonomy().update(34, O::HumanApprovesToolCall);
    assert_eq!(proposed(&scenario), 0);
    scenario = scenario.update(10, O::HumanApprovesToolCall);
    let lower_bound = "0.901".parse::<Rate>().unwrap();
    let proposal = AutonomyChange::Proposed { action_kind: ActionKind::Update, lower_bound };
    assert_eq!((scenario.history[34].autonomy.as_slice(), proposed(&scenario)), ([proposal].as_slice(), 1));
    assert!(!scenario.trust.is_autonomous(ActionKind::Update), "a proposal grants nothing");
    let since = Timestamp::from_millis(0);
    scenario.trust.grant_autonomy(ActionKind::Update, since).unwrap();
    assert!(scenario.trust.is_autonomous(ActionKind::Update));
    assert!(
        scenario.trust.grant_autonomy(ActionKind::Update, since).is_err(),
        "nothing is proposed any more"
    );
}

#[test]
fn autonomy_is_revoked_without_a_decision() {
    let granted = || {
        let mut scenario = with_autonomy().update(35, O::HumanApprovesToolCall);
        scenario.trust.grant_autonomy(ActionKind::Update, Timestamp::from_millis(0)).unwrap();
        scenario
    };
    let revoked = |reason| AutonomyChange::Revoked { action_kind: ActionKind::Update, reason };

    let rejected = granted().update(3, O::ArtifactRejected);
    assert_eq!(rejected.history.last().unwrap().autonomy, [revoked(RevocationReason::ApprovalRate)]);
    assert!(!rejected.trust.is_autonomous(ActionKind::Update));

    let braked = granted().when(O::HumanOverridesViaBrake);
    assert_eq!(braked.history.last().unwrap().autonomy, [revoked(RevocationReason::Brake)]);

    let mut without = granted();
    let old = without.profile.clone();
    without.profile.config.autonomy = None;
    let changes = without.trust.reconfigure(&old, &without.profile, without.tick);
    assert_eq!(changes, [revoked(RevocationReason::PolicyRemoved)]);
}

/// What would end a granted autonomy ends its proposal, too.
#[test]
fn a_proposal_is_withdrawn_without_a_decision() {
    let scenario = || with_autonomy().update(35, O::HumanApprovesToolCall);
    let revoked = |reason| AutonomyChange::Revoked { action_kind: ActionKind::Update, reason };
    let braked = scenario().when(O::HumanOverridesViaBrake);
    assert_eq!(braked.history.last().unwrap().autonomy, [revoked(RevocationReason::Brake)]);
    let rejected = scenario().update(3, O::ArtifactRejected);
    assert_eq!(rejected.history.last().unwrap().autonomy, [revoked(RevocationReason::ApprovalRate)]);
    let mut without = scenario();
    let old = without.profile.clone();
    without.profile.config.autonomy = None;
    let changes = without.trust.reconfigure(&old, &without.profile, without.tick);
    assert_eq!(changes, [revoked(RevocationReason::PolicyRemoved)]);
    for mut scenario in [braked, rejected, without] {
        assert!(scenario.trust.grant_autonomy(ActionKind::Update, Timestamp::from_millis(0)).is_err());
    }
}

#[test]
fn a_declined_proposal_needs_twice_as_many_verdicts() {
    let mut scenario = with_autonomy().update(35, O::HumanApprovesToolCall);
    scenario.trust.decline_autonomy(ActionKind::Update).unwrap();
    assert_eq!(scenario.trust.autonomy(ActionKind::Update), Some(Autonomy::Declined { decided: 35 }));
    scenario = scenario.update(34, O::HumanApprovesToolCall);
    assert_eq!(proposed(&scenario), 1);
    assert_eq!(proposed(&scenario.update(1, O::HumanApprovesToolCall)), 2);
}

#[test]
fn autonomy_to_delete_or_deploy_is_never_proposed() {
    for kind in [ActionKind::Delete, ActionKind::Deploy] {
        let action = Some(JudgedAction::new(kind, Severity::Medium));
        let scenario =
            (0..200).fold(with_autonomy(), |scenario, _| scenario.judged(O::HumanApprovesToolCall, action));
        assert_eq!(proposed(&scenario), 0);
    }
}

#[test]
fn a_simulation_shows_the_history_under_another_profile() {
    let scenario = TrustScenario::balanced_at("50").update(4, O::HumanRejectsToolCall).after_ticks(100);
    let conservative = TrustCalibrationProfile::preset(TrustProfileName::Conservative);
    let simulated = simulate(&scenario.history, &conservative, Tick::ZERO, scenario.tick);
    // 30, 27, 24, 21, 18; then 2 points of decay.
    assert_eq!((simulated.lowest, simulated.highest), (points("18"), points("30")));
    assert_eq!(simulated.final_score, points("20"));
    assert_eq!(simulated.below(points("25")), 2);
}
