//! Properties of the trust engine. The first four are S2's goals of calibration, for every profile.

use pilothouse_domain::effect::{ActionKind, Severity};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::trust::{
    JudgedAction, Points, TrackedScore, TrustCalibrationConfig, TrustCalibrationProfile, TrustOutcome as O,
    TrustProfileName, simulate,
};
use proptest::prelude::*;

use crate::scenarios::trust::{TrustScenario, points};

/// Ticks between two outcomes of an agent at work.
const GAP: u64 = 20;

fn preset() -> impl Strategy<Value = TrustCalibrationProfile> {
    prop::sample::select(TrustProfileName::ALL.to_vec()).prop_map(TrustCalibrationProfile::preset)
}

/// `total` outcomes of an agent in any order, of which people dislike exactly `bad`.
fn work(bad: usize, total: usize) -> impl Strategy<Value = Vec<O>> {
    let liked = prop::sample::select(vec![
        O::HumanApprovesRecommendedOption,
        O::HumanApprovesToolCall,
        O::ArtifactApproved,
        O::TaskCompletedSuccess,
    ]);
    let disliked = prop::sample::select(vec![
        O::HumanPicksNonRecommended,
        O::HumanModifiesToolArgs,
        O::HumanRejectsToolCall,
        O::ArtifactRejected,
    ]);
    (prop::collection::vec(liked, total - bad), prop::collection::vec(disliked, bad))
        .prop_map(|(liked, disliked)| [liked, disliked].concat())
        .prop_shuffle()
}

fn working(scenario: TrustScenario, outcomes: &[O]) -> TrustScenario {
    let action = Some(JudgedAction::new(ActionKind::Update, Severity::Medium));
    outcomes.iter().fold(scenario, |scenario, outcome| scenario.after_ticks(GAP).judged(*outcome, action))
}

fn scores_after(scenario: &TrustScenario) -> Vec<Points> {
    scenario.history.iter().map(|entry| entry.after).collect()
}

fn outcome() -> impl Strategy<Value = O> {
    prop::sample::select(O::ALL.to_vec())
}

fn action() -> impl Strategy<Value = Option<JudgedAction>> {
    let severity = prop::sample::select(Severity::ALL.to_vec());
    let action =
        (prop::sample::select(ActionKind::ALL.to_vec()), severity.clone(), prop::option::of(severity))
            .prop_map(|(kind, severity, reported)| JudgedAction {
                reported_severity: reported,
                ..JudgedAction::new(kind, severity)
            });
    prop::option::of(action)
}

fn score() -> impl Strategy<Value = Points> {
    (10_000..=100_000_i32).prop_map(|thousandths| Points::from_thousandths(thousandths).unwrap())
}

fn any_profile() -> impl Strategy<Value = TrustCalibrationProfile> {
    (preset(), score(), score(), 0..100_i64, score()).prop_map(
        |(mut profile, initial, target, rate, ceiling)| {
            profile.config.initial_score = initial;
            profile.config.decay_target_score = target;
            profile.config.decay_rate_per_tick = Points::clamped(rate);
            profile.config.decay_ceiling = ceiling;
            profile
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_agents_converge_above_80(profile in preset(), outcomes in work(3, 150)) {
        let scenario = working(TrustScenario::given(profile), &outcomes);
        prop_assert!(scores_after(&scenario).iter().any(|score| *score > points("80")), "{:?}", scenario.score());
    }

    #[test]
    fn struggling_agents_stay_above_20_and_recover(rejections in 1..7_usize, good in work(2, 60)) {
        let scenario = TrustScenario::given(TrustCalibrationProfile::default());
        let scenario = working(scenario, &vec![O::HumanRejectsToolCall; rejections]);
        let low = scenario.score();
        prop_assert!(low > points("20") && low < points("50"));
        prop_assert!(working(scenario, &good).score() > points("50"));
    }

    #[test]
    fn agents_recover_from_the_floor(profile in preset(), good in work(3, 150)) {
        let scenario = working(TrustScenario::given(profile), &[O::HumanOverridesViaBrake; 60]);
        let low = scenario.score();
        let recovered = working(scenario, &good).score();
        prop_assert!(recovered > low.plus(points("30")), "{low} {recovered}");
    }

    #[test]
    fn good_and_bad_agents_separate(profile in preset(), good in work(5, 100), bad in work(80, 100)) {
        let good = working(TrustScenario::given(profile.clone()), &good).score();
        let bad = working(TrustScenario::given(profile), &bad).score();
        prop_assert!(good > bad.plus(points("10")), "{good} {bad}");
    }

    #[test]
    fn scores_respond_to_a_sudden_change(good in work(3, 150), bad in work(34, 35)) {
        let scenario = working(TrustScenario::given(TrustCalibrationProfile::default()), &good);
        prop_assert!(scenario.score() > points("80"));
        // From here on, adaptive mode asks again.
        prop_assert!(working(scenario, &bad).score() < points("70"));
    }

    #[test]
    fn scores_stay_in_range_and_follow_the_sign_of_the_outcome(
        profile in any_profile(),
        steps in prop::collection::vec((outcome(), action(), 0..5000_u64), 1..60),
    ) {
        let mut scenario = TrustScenario::given(profile);
        for (outcome, action, wait) in steps {
            scenario = scenario.after_ticks(wait).judged(outcome, action);
            let entry = scenario.history.last().unwrap();
            let config = &scenario.profile.config;
            prop_assert!((config.floor_score..=config.ceiling_score).contains(&entry.after));
            prop_assert_eq!(scenario.score(), entry.after);
            let at_limit = entry.after == config.floor_score || entry.after == config.ceiling_score;
            let expected = outcome.base_delta().cmp(&Points::ZERO);
            prop_assert!(entry.after.cmp(&entry.before) == expected || at_limit, "{}", entry.rule);
        }
    }

    #[test]
    fn decay_in_two_steps_equals_decay_in_one(
        profile in any_profile(),
        from in score(),
        first in 0..20_000_u64,
        second in 0..20_000_u64,
    ) {
        let config: &TrustCalibrationConfig = &profile.config;
        let start = TrackedScore { score: from, as_of: Tick::ZERO };
        let middle = TrackedScore { score: start.at(Tick::new(first), config), as_of: Tick::new(first) };
        let end = Tick::new(first + second);
        prop_assert_eq!(middle.at(end, config), start.at(end, config));
    }

    #[test]
    fn a_simulation_under_the_same_profile_repeats_the_history(
        profile in any_profile(),
        steps in prop::collection::vec((outcome(), action(), 0..5000_u64), 0..60),
    ) {
        let scenario = steps
            .into_iter()
            .fold(TrustScenario::given(profile), |scenario, (outcome, action, wait)| {
                scenario.after_ticks(wait).judged(outcome, action)
            });
        let simulated = simulate(&scenario.history, &scenario.profile, Tick::ZERO, scenario.tick);
        prop_assert_eq!(simulated.entries, scenario.history.clone());
        prop_assert_eq!(simulated.final_score, scenario.score());
    }

    #[test]
    fn calibration_mode_never_changes_the_score_in_force(
        profile in any_profile(),
        steps in prop::collection::vec((outcome(), action(), 0..5000_u64), 0..60),
    ) {
        let mut calibrating = profile.clone();
        calibrating.config.calibration_mode = true;
        let (mut live, mut frozen) = (TrustScenario::given(profile), TrustScenario::given(calibrating));
        let initial = frozen.score();
        for (outcome, action, wait) in steps {
            live = live.after_ticks(wait).judged(outcome, action);
            frozen = frozen.after_ticks(wait).judged(outcome, action);
            prop_assert_eq!(frozen.score(), initial);
            let hypothetical = frozen.trust.hypothetical_score(frozen.tick, &frozen.profile);
            prop_assert_eq!(hypothetical, Some(live.score()));
        }
    }
}
