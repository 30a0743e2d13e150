//! Reviews of coherence issues by a model: the answer, the limits, the results and the adjusted threshold (decision 91).

use std::collections::BTreeMap;

use pilothouse_domain::coherence::comparison::Thresholds;
use pilothouse_domain::coherence::{
    AlignmentCheck, CoherenceCategory, CoherenceEvent as E, CoherenceFeedbackLoopConfig, CoherenceIssue,
    CoherenceMonitorConfig, CoherenceState, ComparisonEngine, EmbeddingUse, EmbeddingsConfig, Finding,
    InvalidCoherenceConfig as I, IssueReview, IssueSource, ReviewCandidate, ReviewFailure, ReviewLedger,
    ReviewRequest, ReviewResult, ReviewStart, ReviewUse, ReviewedArtifact, Similarity, StructuralCheck,
};
use pilothouse_domain::decision::{
    CoherenceOutcome, FreeDecision, ProposedResolution, Resolution, ResolutionType,
};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::text::{Feedback, ModelId, WorkstreamId};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{
    AgentSessionId, ArtifactId, CoherenceIssueId, Deadlines, DecisionId, DomainContext, ProjectAgentId,
    ProjectId, Timestamp, Usd, UserId,
};
use serde_json::{Value, json};
use uuid::Uuid;

const MINUTE: i64 = 60_000;

fn at<T>(millis: i64, decide: impl FnOnce(&DomainContext<'_>) -> T) -> T {
    let mut ids = || Uuid::nil();
    decide(&DomainContext::new(Timestamp::from_millis(millis), Deadlines::default(), &mut ids))
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn issue_id(n: u128) -> CoherenceIssueId {
    CoherenceIssueId::new(Uuid::from_u128(n))
}

fn agent() -> ProjectAgentId {
    ProjectAgentId::new(Uuid::from_u128(7))
}

fn owner() -> UserId {
    UserId::parse("ada").unwrap()
}

fn model() -> ModelId {
    ModelId::parse("mini").unwrap()
}

fn finding(source: IssueSource, severity: Severity) -> Finding {
    Finding {
        source,
        category: CoherenceCategory::Duplication,
        severity,
        title: "guide.md and price.ts have similar content".to_owned(),
        description: "They share most words.".to_owned(),
        affected_workstreams: vec![WorkstreamId::parse("api").unwrap()],
        affected_artifact_ids: vec![ArtifactId::new(Uuid::from_u128(3))],
        affected_agent_ids: vec![agent()],
        evidence_at: time(10),
    }
}

fn similar(severity: Severity) -> Finding {
    finding(IssueSource::Similarity { engine: ComparisonEngine::Lexical, percent: 60 }, severity)
}

fn issue_of(finding: Finding) -> CoherenceIssue {
    let place = (owner(), ProjectId::new(Uuid::from_u128(1)));
    at(10, |ctx| CoherenceIssue::detect(issue_id(1), place, finding, Tick::ZERO, ctx).0)
}

fn issue() -> CoherenceIssue {
    issue_of(similar(Severity::Medium))
}

fn result(confirmed: bool, severity: Severity) -> ReviewResult {
    ReviewResult {
        candidate_id: issue_id(1),
        confirmed,
        category: confirmed.then_some(CoherenceCategory::Contradiction),
        severity: confirmed.then_some(severity),
        explanation: "One counts cents, the other dollars.".to_owned(),
        suggested_resolution: Some("Count cents.".to_owned()),
    }
}

fn reviewed(mut issue: CoherenceIssue, result: ReviewResult) -> (CoherenceIssue, Vec<E>) {
    let events = at(20, |ctx| issue.record_review(result, model(), Tick::ZERO, ctx));
    (issue, events)
}

fn request() -> ReviewRequest {
    ReviewRequest {
        candidates: vec![ReviewCandidate::of(issue_id(1), &similar(Severity::Medium), time(10))],
        artifact_contents: BTreeMap::new(),
        relevant_decisions: Vec::new(),
        workstream_briefs: Vec::new(),
    }
}

fn answer(changes: &Value) -> String {
    let mut result = json!({
        "candidateId": issue_id(1), "confirmed": true, "category": "contradiction", "severity": "high",
        "explanation": "They differ.", "suggestedResolution": null,
    });
    for (field, value) in changes.as_object().unwrap() {
        result[field] = value.clone();
    }
    json!({ "results": [result] }).to_string()
}

#[test]
fn valid_answer_is_read_with_or_without_a_fence() {
    let text = answer(&json!({}));
    for text in [text.clone(), format!("```json\n{text}\n```"), format!("```\n{text}```")] {
        let results = request().read_answer(&text).unwrap();
        assert_eq!((results[0].confirmed, results[0].severity), (true, Some(Severity::High)));
    }
    let dismissed = answer(&json!({ "confirmed": false, "category": null, "severity": null }));
    assert!(!request().read_answer(&dismissed).unwrap()[0].confirmed);
}

#[test]
fn invalid_answer_names_every_violation() {
    let other = json!({ "candidateId": issue_id(2), "category": null, "severity": null, "explanation": " " });
    let violations = request().read_answer(&answer(&other)).unwrap_err().join("; ");
    for part in [
        "none of the candidates",
        "category is required",
        "severity is required",
        "explanation must not be empty",
        "has no result",
    ] {
        assert!(violations.contains(part), "{violations}");
    }
    for text in
        ["I confirm it.", "{}", r#"{"results":[{"confirmed":true}]}"#, &answer(&json!({ "run": "rm" }))]
    {
        assert!(request().read_answer(text).is_err(), "{text}");
    }
    let twice: Value = serde_json::from_str(&answer(&json!({}))).unwrap();
    let twice = json!({ "results": [twice["results"][0], twice["results"][0]] });
    assert!(request().read_answer(&twice.to_string()).unwrap_err()[0].contains("another result"));
}

#[test]
fn contents_of_a_request_have_a_limit_together() {
    let text = "é".repeat(ReviewRequest::MAX_CHARACTERS);
    let workstream = WorkstreamId::parse("api").unwrap();
    let one = ReviewedArtifact::new("a.md".to_owned(), workstream.clone(), &text, 1);
    assert!(!one.is_cut);
    let of_two = ReviewedArtifact::new("a.md".to_owned(), workstream, &text, 2);
    assert_eq!((of_two.text.chars().count(), of_two.is_cut), (ReviewRequest::MAX_CHARACTERS / 2, true));
}

#[test]
fn only_uncertain_findings_are_reviewed() {
    let structural = |check| finding(IssueSource::Structural { check }, Severity::High);
    assert!(issue().needs_review());
    assert!(issue_of(structural(StructuralCheck::FileConflict)).needs_review());
    assert!(issue_of(structural(StructuralCheck::DecisionConflict)).needs_review());
    for certain in [
        StructuralCheck::ConcurrentVersions,
        StructuralCheck::DuplicateArtifact,
        StructuralCheck::DependencyViolation,
    ] {
        assert!(!issue_of(structural(certain)).needs_review(), "{certain}");
    }
    assert!(!issue_of(similar(Severity::Low)).needs_review(), "below the promotion threshold");
    let alignment = IssueSource::Alignment {
        check: AlignmentCheck::NotReflected,
        decision_id: DecisionId::new(Uuid::from_u128(5)),
        engine: ComparisonEngine::Embeddings,
        percent: 20,
    };
    assert!(issue_of(finding(alignment, Severity::Medium)).needs_review());
    assert!(!issue_of(finding(IssueSource::Person { id: owner() }, Severity::High)).needs_review());
    let flagged = IssueSource::Agent { agent_id: agent(), session_id: AgentSessionId::new(Uuid::nil()) };
    assert!(!issue_of(finding(flagged, Severity::High)).needs_review());
}

#[test]
fn confirmed_issue_has_the_classification_of_the_model() {
    let (issue, events) = reviewed(issue(), result(true, Severity::Critical));
    assert_eq!(
        (issue.finding().category, issue.finding().severity),
        (CoherenceCategory::Contradiction, Severity::Critical)
    );
    assert_eq!(issue.status().state(), CoherenceState::Open, "a person settles it");
    assert!(matches!(events[..], [E::Reviewed { confirmed: true, severity: Severity::Critical, .. }]));
    let (_, events) = reviewed(issue, result(false, Severity::Low));
    assert_eq!(events, [], "it is reviewed once");
}

#[test]
fn false_positive_is_dismissed_until_a_later_version() {
    let (mut issue, _) = reviewed(issue(), result(false, Severity::Low));
    assert_eq!(issue.status().state(), CoherenceState::Dismissed);
    assert!(issue.scored().ended.is_some());
    let again = |issue: &mut CoherenceIssue, evidence| {
        let found = Finding { evidence_at: time(evidence), ..similar(Severity::Medium) };
        at(40, |ctx| issue.detect_again(found, Tick::ZERO, ctx))
    };
    assert_eq!(again(&mut issue, 15), []);
    assert_eq!(again(&mut issue, 30).len(), 1);
    assert!(issue.needs_review() && issue.review().is_none());
}

#[test]
fn advisory_pair_is_promoted_when_it_becomes_similar_enough() {
    let again = |issue: &mut CoherenceIssue, severity| {
        at(40, |ctx| issue.detect_again(similar(severity), Tick::new(4), ctx))
    };
    let mut advisory = issue_of(similar(Severity::Low));
    assert_eq!(again(&mut advisory, Severity::Low), []);
    let events = again(&mut advisory, Severity::Medium);
    assert!(matches!(events[..], [E::Detected { severity: Severity::Medium, .. }]), "{events:?}");
    assert!(advisory.needs_review());
    assert_eq!(again(&mut advisory, Severity::Medium), []);
    let (mut judged, _) = reviewed(advisory, result(true, Severity::Low));
    assert_eq!(again(&mut judged, Severity::Medium), [], "the model found it less severe");
}

#[test]
fn waiting_for_the_spending_cap_is_no_attempt() {
    let mut issue = issue();
    let mut fail = |failure| at(20, |ctx| issue.record_review_failure(failure, ctx)).len();
    let recorded = [ReviewFailure::Unavailable, ReviewFailure::SpendingCap, ReviewFailure::SpendingCap];
    assert_eq!(recorded.map(&mut fail), [1, 1, 0]);
    assert_eq!((issue.failed_reviews(), issue.has_given_up_review()), (1, true));
}

#[test]
fn issue_that_a_person_settled_stays_as_it_is() {
    let mut dismissed = issue();
    at(15, |ctx| dismissed.dismiss(&owner(), None, Tick::ZERO, ctx)).unwrap();
    let (after, events) = reviewed(dismissed.clone(), result(true, Severity::High));
    assert_eq!((after, events), (dismissed, Vec::new()));
}

#[test]
fn failed_review_leaves_the_issue_unconfirmed() {
    let mut issue = issue();
    for attempt in 1..=3 {
        let events = at(20, |ctx| issue.record_review_failure(ReviewFailure::Unavailable, ctx));
        assert!(matches!(events[..], [E::ReviewFailed { failure: ReviewFailure::Unavailable, .. }]));
        assert_eq!((issue.failed_reviews(), issue.status().state()), (attempt, CoherenceState::Open));
    }
    assert_eq!(issue.finding(), &similar(Severity::Medium));
    assert_eq!(at(30, |ctx| issue.request_review(ctx)).len(), 1);
    assert_eq!(at(31, |ctx| issue.request_review(ctx)), [], "requested already");
    let (issue, _) = reviewed(issue, result(true, Severity::High));
    assert!(matches!(issue.review(), Some(IssueReview::Confirmed { .. })));
}

#[test]
fn severe_confirmed_issue_becomes_a_decision() {
    for (severity, opens) in [(Severity::Medium, false), (Severity::High, true), (Severity::Critical, true)] {
        let (issue, _) = reviewed(issue(), result(true, severity));
        let decision = FreeDecision::coherence_review(&issue);
        assert_eq!(decision.is_some(), opens, "{severity}");
        if let Some(decision) = decision {
            assert_eq!(decision.decision().severity, Some(severity));
            assert_eq!(decision.decision().project_id(), Some(issue.project_id()));
            assert_eq!(decision.decision().id, FreeDecision::coherence_review_of(issue_id(1), time(20)));
        }
    }
    assert!(FreeDecision::coherence_review(&issue()).is_none(), "it is not confirmed");
    let (dismissed, _) = reviewed(issue(), result(false, Severity::High));
    assert!(FreeDecision::coherence_review(&dismissed).is_none());
}

#[test]
fn decision_about_an_issue_takes_an_option_with_a_reason() {
    let (issue, _) = reviewed(issue(), result(true, Severity::High));
    let decision = FreeDecision::coherence_review(&issue).unwrap();
    let proposed = |option: &str| ProposedResolution {
        resolution_type: ResolutionType::ChooseOption,
        chosen_option_id: Some(option.to_owned()),
        answers: None,
        rationale: Some(Feedback::parse("Cents everywhere").unwrap()),
        always_approve: false,
        modified_input: None,
    };
    for outcome in CoherenceOutcome::ALL {
        let resolution = decision.resolution(&proposed(&outcome.to_string())).unwrap();
        assert!(matches!(resolution, Resolution::ChooseOption { rationale: Some(_), .. }));
        assert_eq!(CoherenceOutcome::of_option(&outcome.to_string()), Some(outcome));
    }
    assert!(decision.resolution(&proposed("approve")).is_err());
}

#[test]
fn reviews_of_an_hour_have_a_limit() {
    let mut ledger = ReviewLedger::default();
    let begin = |ledger: &mut ReviewLedger, n, minute| ledger.begin(issue_id(n), 2, time(minute * MINUTE));
    assert_eq!(begin(&mut ledger, 1, 0), ReviewStart::Now);
    assert_eq!(begin(&mut ledger, 2, 10), ReviewStart::Now);
    assert_eq!(begin(&mut ledger, 3, 20), ReviewStart::Later { until: time(60 * MINUTE) });
    assert_eq!(begin(&mut ledger, 3, 60), ReviewStart::Now, "the first one is an hour old");
    assert_eq!(begin(&mut ledger, 4, 61), ReviewStart::Later { until: time(70 * MINUTE) });
    let none = ReviewLedger::default().begin(issue_id(1), 0, time(0));
    assert_eq!(none, ReviewStart::Later { until: time(60 * MINUTE) });
}

#[test]
fn issue_is_not_reviewed_twice_at_the_same_time() {
    let mut ledger = ReviewLedger::default();
    let mut begin = |minute| ledger.begin(issue_id(1), 10, time(minute * MINUTE));
    assert_eq!(begin(0), ReviewStart::Now);
    assert_eq!(begin(1), ReviewStart::Later { until: time(3 * MINUTE) });
    assert_eq!(begin(3), ReviewStart::Now, "the first one was lost");
    let cost = ReviewUse { reviews: 1, input_tokens: 10, output_tokens: 2, spent_usd: Usd::whole(1) };
    ledger.end(issue_id(1), cost);
    ledger.end(issue_id(1), cost);
    assert_eq!(ledger.usage().spent_usd, Usd::whole(2));
    assert_eq!(ledger.begin(issue_id(1), 10, time(4 * MINUTE)), ReviewStart::Now);
}

fn learning(enabled: bool) -> CoherenceMonitorConfig {
    let feedback_loop = CoherenceFeedbackLoopConfig { enabled, ..CoherenceFeedbackLoopConfig::default() };
    CoherenceMonitorConfig { feedback_loop, ..CoherenceMonitorConfig::default() }
}

/// The thresholds after reviews, one each minute.
fn thresholds_after(
    ledger: &mut ReviewLedger,
    config: &CoherenceMonitorConfig,
    results: &[bool],
) -> Thresholds {
    for (minute, is_false_positive) in (0..).zip(results) {
        ledger.learn(LEXICAL, *is_false_positive, config, time(minute * MINUTE));
    }
    ledger.thresholds(LEXICAL, config)
}

const LEXICAL: ComparisonEngine = ComparisonEngine::Lexical;

const fn promotion(promotion: f64) -> Thresholds {
    Thresholds { promotion, advisory: 0.32, alignment: 0.03 }
}

#[test]
fn threshold_follows_the_rate_of_false_positives() {
    let config = learning(true);
    let mostly = |wrong: usize| -> Vec<bool> { (0..20).map(|n| n < wrong).collect() };
    for (wrong, adjusted) in [(11, 0.54), (10, 0.52), (2, 0.52), (1, 0.51), (0, 0.51)] {
        let thresholds = thresholds_after(&mut ReviewLedger::default(), &config, &mostly(wrong));
        assert_eq!(thresholds, promotion(adjusted), "{wrong} of 20");
    }
    let mut ledger = ReviewLedger::default();
    assert_eq!(thresholds_after(&mut ledger, &config, &mostly(11)[..19]), promotion(0.52), "too few");
    let mut ledger = ReviewLedger::default();
    for (wrong, bound) in [(20, 0.62), (0, 0.42)] {
        for _ in 0..30 {
            thresholds_after(&mut ledger, &config, &mostly(wrong));
        }
        assert_eq!(ledger.thresholds(LEXICAL, &config), promotion(bound));
    }
    assert_eq!(ledger.thresholds(LEXICAL, &learning(false)), promotion(0.52), "the feedback loop is off");
    let advisory = CoherenceMonitorConfig { layer1_advisory_threshold: Similarity::percent(50), ..config };
    assert_eq!(
        ledger.thresholds(LEXICAL, &advisory),
        Thresholds { advisory: 0.5, ..promotion(0.5) },
        "not below the advisory threshold"
    );
}

#[test]
fn threshold_stays_while_the_feedback_loop_is_off() {
    let mut ledger = ReviewLedger::default();
    thresholds_after(&mut ledger, &learning(false), &[true; 100]);
    assert_eq!(ledger.thresholds(LEXICAL, &learning(true)), promotion(0.52));
}

#[test]
fn reviews_of_the_last_24_hours_move_the_threshold() {
    let config = learning(true);
    let twentieth_at = |minutes: i64| {
        let mut ledger = ReviewLedger::default();
        thresholds_after(&mut ledger, &config, &[true; 19]);
        ledger.learn(LEXICAL, true, &config, time(minutes * MINUTE));
        ledger.thresholds(LEXICAL, &config)
    };
    assert_eq!(twentieth_at(24 * 60 - 1), promotion(0.54));
    assert_eq!(twentieth_at(24 * 60), promotion(0.52), "the first one does not count any more");
}

#[test]
fn each_engine_has_thresholds_of_its_own() {
    let config = learning(true);
    let mut ledger = ReviewLedger::default();
    let embeddings = |ledger: &ReviewLedger| ledger.thresholds(ComparisonEngine::Embeddings, &learning(true));
    let of_specification = Thresholds { promotion: 0.85, advisory: 0.7, alignment: 0.3 };
    assert_eq!(embeddings(&ledger), of_specification);
    thresholds_after(&mut ledger, &config, &[true; 20]);
    assert_eq!(embeddings(&ledger), of_specification, "reviews of the other engine");
    for minute in 0..200 {
        ledger.learn(ComparisonEngine::Embeddings, true, &config, time(minute * MINUTE));
    }
    assert_eq!(embeddings(&ledger), Thresholds { promotion: 0.95, ..of_specification });
    assert_eq!(ledger.thresholds(LEXICAL, &config), promotion(0.54));
    let mut ledger = ReviewLedger::default();
    for minute in 0..300 {
        ledger.learn(ComparisonEngine::Embeddings, false, &config, time(minute * MINUTE));
    }
    assert_eq!(embeddings(&ledger), Thresholds { promotion: 0.75, ..of_specification });
}

#[test]
fn embeddings_and_reviews_have_one_cost() {
    let mut ledger = ReviewLedger::default();
    ledger.end(issue_id(1), ReviewUse { reviews: 1, spent_usd: Usd::whole(2), ..ReviewUse::default() });
    let cost = EmbeddingUse { texts: 3, tokens: 40, unpriced_tokens: 5, spent_usd: Usd::whole(1) };
    ledger.count_embeddings(cost);
    ledger.count_embeddings(cost);
    assert_eq!(ledger.spent_usd(), Usd::whole(4));
    let all = EmbeddingUse { texts: 6, tokens: 80, unpriced_tokens: 10, spent_usd: Usd::whole(2) };
    assert_eq!((ledger.embeddings(), ledger.usage().reviews), (all, 1));
}

#[test]
fn settings_have_the_defaults_of_the_specification() {
    let config: CoherenceMonitorConfig = serde_json::from_str("{}").unwrap();
    assert_eq!(config, CoherenceMonitorConfig::default());
    assert_eq!(config.check(), Ok(()));
    let shown = serde_json::to_value(&config).unwrap();
    let expected = json!({
        "layer1ScanIntervalTicks": 10, "layer1PromotionThreshold": 0.52, "layer1AdvisoryThreshold": 0.32,
        "layer1MaxArtifactsPerScan": 500, "layer2MaxReviewsPerHour": 10, "enableLayer2": true,
        "embeddings": {
            "enabled": true, "promotionThreshold": 0.85, "advisoryThreshold": 0.7, "thresholdClampMin": 0.75,
            "thresholdClampMax": 0.95,
        },
        "feedbackLoop": {
            "enabled": false, "falsePositiveWindowHours": 24, "thresholdAdjustStepUp": 0.02,
            "thresholdAdjustStepDown": 0.01, "thresholdClampMin": 0.42, "thresholdClampMax": 0.62,
            "minReviewsForAdjustment": 20,
        },
    });
    assert_eq!(shown, expected);
}

#[test]
fn invalid_settings_are_all_named() {
    let config = CoherenceMonitorConfig {
        layer1_scan_interval_ticks: 0,
        layer1_advisory_threshold: Similarity::percent(53),
        layer1_max_artifacts_per_scan: 501,
        layer2_max_reviews_per_hour: 1001,
        embeddings: EmbeddingsConfig {
            advisory_threshold: Similarity::percent(86),
            threshold_clamp_min: Similarity::percent(96),
            ..EmbeddingsConfig::default()
        },
        feedback_loop: CoherenceFeedbackLoopConfig {
            false_positive_window_hours: 0,
            threshold_clamp_min: Similarity::percent(63),
            min_reviews_for_adjustment: 0,
            ..CoherenceFeedbackLoopConfig::default()
        },
        ..CoherenceMonitorConfig::default()
    };
    let all = [
        I::Interval,
        I::Advisory,
        I::Artifacts,
        I::EmbeddingsAdvisory,
        I::EmbeddingsClamp,
        I::Reviews,
        I::Window,
        I::Clamp,
        I::MinReviews,
    ];
    assert_eq!(config.check(), Err(all.to_vec()));
}
