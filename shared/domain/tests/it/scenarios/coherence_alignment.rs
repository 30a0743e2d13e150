//! Embeddings of texts, and artifacts that do not fit a decision (S2, "Semantic similarity"; decision 88).

use pilothouse_domain::artifact::{ArtifactPath, VersionRecord};
use pilothouse_domain::coherence::comparison::{ComparedArtifact, Comparison, Thresholds};
use pilothouse_domain::coherence::similarity::{Scan, ScannedTexts};
use pilothouse_domain::coherence::{
    AlignmentCheck, CoherenceCategory, CoherenceMonitorConfig, ComparisonEngine, Detected, Embedding,
    InvalidEmbedding, IssueSource, RelevantDecision, ResolvedDecision, ReviewCandidate, ReviewLedger,
};
use pilothouse_domain::decision::Decision;
use pilothouse_domain::effect::Severity;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::value::ContentHash;
use pilothouse_domain::{ArtifactId, ProjectAgentId, ProjectId, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

fn embedding(values: &[f64]) -> Embedding {
    Embedding::new(values).unwrap()
}

#[test]
fn cosine_depends_on_the_direction_only() {
    let similarity = |one: &[f64], other: &[f64]| embedding(one).similarity(&embedding(other)).unwrap();
    let is = |found: f64, expected: f64| assert!((found - expected).abs() < 0.005, "{found} {expected}");
    is(similarity(&[1.0, 2.0, -3.0], &[0.1, 0.2, -0.3]), 1.0);
    is(similarity(&[1.0, 0.0], &[0.0, 5.0]), 0.0);
    is(similarity(&[1.0, 0.0], &[1.0, 1.0]), 0.5_f64.sqrt());
    is(similarity(&[1.0, 0.0], &[0.9, 0.435_889_9]), 0.9);
    is(similarity(&[1.0, 1.0], &[-1.0, -1.0]), 0.0);
    assert_eq!(embedding(&[1.0, 1.0]).similarity(&embedding(&[1.0])), None, "another model");
}

#[test]
fn embedding_is_not_empty_and_has_numbers_only() {
    let many = vec![1.0; Embedding::MAX_DIMENSIONS + 1];
    for values in [&[] as &[f64], many.as_slice()] {
        assert_eq!(Embedding::new(values), Err(InvalidEmbedding::Dimensions));
    }
    for values in [[0.0, 0.0], [1.0, f64::NAN], [f64::INFINITY, 1.0]] {
        assert_eq!(Embedding::new(&values), Err(InvalidEmbedding::Values), "{values:?}");
    }
    let stored = embedding(&[0.5, -0.25, 0.0]).bytes();
    assert_eq!(Embedding::of_bytes(&stored), Ok(embedding(&[0.5, -0.25, 0.0])));
    assert_eq!(Embedding::of_bytes(&[]), Err(InvalidEmbedding::Dimensions));
    assert_eq!(Embedding::of_bytes(&[0, 0]), Err(InvalidEmbedding::Values));
}

proptest! {
    /// A byte for each dimension is enough for the thresholds.
    #[test]
    fn stored_embeddings_are_as_similar_as_exact_ones(
        pairs in prop::collection::vec((-1.0f64..1.0, -1.0f64..1.0), 64..128)
    ) {
        let (one, other): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let exact = product(&one, &other) / (product(&one, &one) * product(&other, &other)).sqrt();
        let stored = embedding(&one).similarity(&embedding(&other)).unwrap();
        prop_assert!((exact.max(0.0) - stored).abs() < 0.01, "{} {}", exact, stored);
    }
}

fn artifact_id(n: u128) -> ArtifactId {
    ArtifactId::new(Uuid::from_u128(n))
}

fn agent(n: u128) -> ProjectAgentId {
    ProjectAgentId::new(Uuid::from_u128(n))
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn project() -> ProjectId {
    ProjectId::new(Uuid::from_u128(1))
}

/// A decision of agent 7 of the workstream `api` that names artifact 1, resolved at 20.
fn decision(changes: &Value) -> Decision {
    let mut decision = json!({
        "id": Uuid::from_u128(50), "ownerId": "ada", "sessionId": Uuid::from_u128(60), "sessionName": "Build",
        "project": { "projectId": project(), "agentId": agent(7), "workstream": "api" },
        "kind": "option", "requestId": "q1", "question": "In which unit are prices?\nThe shop needs one.",
        "options": [
            { "id": "c", "label": "Cents", "description": "Whole numbers." }, { "id": "d", "label": "Dollars" },
        ],
        "assessment": { "affectedArtifactIds": [artifact_id(1), "elsewhere"] },
        "createdAt": time(10), "state": "resolved", "resolvedBy": { "type": "owner", "id": "ada" },
        "resolvedAt": time(20),
        "resolution": { "resolutionType": "choose_option", "chosenOptionId": "c", "rationale": "They are exact." },
    });
    for (field, value) in changes.as_object().unwrap() {
        decision[field] = value.clone();
    }
    serde_json::from_value(decision).unwrap()
}

fn resolved() -> ResolvedDecision {
    ResolvedDecision::of(&decision(&json!({}))).unwrap()
}

#[test]
fn choice_with_its_reason_is_compared() {
    let resolved = resolved();
    assert_eq!(
        resolved.text(),
        "In which unit are prices?\nThe shop needs one.\nCents\nWhole numbers.\nThey are exact."
    );
    assert_eq!(
        resolved.affected_artifact_ids,
        [artifact_id(1)],
        "the other one is no artifact of the project"
    );
    let answers = json!({ "resolutionType": "answer", "answers": [{ "question": "In which unit?", "answer": "Euros" }] });
    let answered = ResolvedDecision::of(&decision(&json!({ "resolution": answers }))).unwrap();
    assert_eq!((answered.choice.as_str(), answered.reason), ("Euros", None));
    assert_eq!(ResolvedDecision::of(&decision(&json!({ "state": "pending" }))), None, "nobody has decided");
    assert_eq!(ResolvedDecision::of(&decision(&json!({ "project": null }))), None, "no project");
    let plan = json!({ "kind": "plan", "version": 1, "resolution": { "resolutionType": "approve" } });
    assert_eq!(ResolvedDecision::of(&decision(&plan)), None, "another kind");
}

#[test]
fn long_question_leaves_room_for_the_choice() {
    let question = "q".repeat(2000);
    let long = ResolvedDecision { question, reason: Some("r".repeat(2000)), ..resolved() };
    let text = long.text();
    assert_eq!(text.chars().count(), VersionRecord::HEAD_CHARS);
    assert!(text.contains("\nCents\nWhole numbers.\nrrr"), "{text}");
}

/// Artifact `n` of agent `n` of the workstream `docs`, stored at 15.
fn artifact(n: u128) -> ComparedArtifact {
    ComparedArtifact {
        id: artifact_id(n),
        workstream: WorkstreamId::parse("docs").unwrap(),
        path: ArtifactPath::parse(format!("{n}.md")).unwrap(),
        author: Some(agent(n)),
        stored_at: time(15),
        content_hash: ContentHash::parse(format!("{n:064x}")).unwrap(),
    }
}

fn thresholds() -> Thresholds {
    ReviewLedger::default().thresholds(ComparisonEngine::Embeddings, &CoherenceMonitorConfig::default())
}

/// A direction with this similarity to the direction of the decision.
fn towards(similarity: f64) -> Embedding {
    embedding(&[similarity, (1.0 - similarity * similarity).sqrt()])
}

/// The findings between the decision and the artifacts `n` with these similarities to it.
fn misaligned(artifacts: &[(u128, f64)], since: Option<i64>, is_reviewed: bool) -> Vec<Detected> {
    let vectors = artifacts.iter().map(|(_, similarity)| towards(*similarity)).chain([towards(1.0)]);
    let comparison = Comparison::Embeddings(vectors.map(Some).collect());
    let artifacts: Vec<_> = artifacts.iter().map(|(n, _)| artifact(*n)).collect();
    let texts = ScannedTexts {
        artifacts: &artifacts,
        decisions: &[resolved()],
        comparison: &comparison,
        thresholds: thresholds(),
        since: since.map(time),
        is_reviewed,
    };
    let Scan::Done { misaligned, .. } = texts.scan(project()) else { panic!("too many") };
    misaligned
}

fn checks(artifacts: &[(u128, f64)], is_reviewed: bool) -> Vec<(AlignmentCheck, ArtifactId)> {
    let check = |it: &Detected| match it.finding.source {
        IssueSource::Alignment { check, .. } => (check, it.finding.affected_artifact_ids[0]),
        _ => panic!("{it:?}"),
    };
    misaligned(artifacts, None, is_reviewed).iter().map(check).collect()
}

#[test]
fn named_artifact_on_another_subject_does_not_reflect_the_decision() {
    for is_reviewed in [true, false] {
        assert_eq!(checks(&[(1, 0.2)], is_reviewed), [(AlignmentCheck::NotReflected, artifact_id(1))]);
    }
    assert_eq!(checks(&[(1, 0.35), (2, 0.2)], true), [], "similar enough, and not named");
    let found = misaligned(&[(1, 0.2)], None, false).remove(0);
    let finding = &found.finding;
    assert_eq!((finding.category, finding.severity), (CoherenceCategory::Gap, Severity::Medium));
    assert_eq!(finding.title, "1.md does not reflect “Cents”");
    assert!(finding.description.contains("Nobody has confirmed it"), "{}", finding.description);
    assert!(finding.description.contains("“In which unit are prices?”"), "{}", finding.description);
    let workstreams: Vec<_> = finding.affected_workstreams.iter().map(ToString::to_string).collect();
    assert_eq!(
        (workstreams, &finding.affected_agent_ids),
        (vec!["docs".to_owned(), "api".to_owned()], &vec![agent(1), agent(7)])
    );
    assert_eq!(finding.evidence_at, time(20));
}

#[test]
fn artifact_on_the_subject_of_a_decision_is_a_candidate_for_a_model() {
    let subject = |n| (AlignmentCheck::SameSubject, artifact_id(n));
    assert_eq!(checks(&[(1, 0.72), (2, 0.72), (3, 0.87)], true), [subject(1), subject(3)]);
    assert_eq!(checks(&[(1, 0.95), (3, 0.95)], false), [], "no model could tell whether they agree");
    let found = misaligned(&[(3, 0.9)], None, true).remove(0);
    assert_eq!(found.finding.category, CoherenceCategory::Contradiction);
    assert!(found.finding.source.is_reviewable(found.finding.severity));
    let candidate = ReviewCandidate::of(found.id, &found.finding, time(30));
    assert_eq!(
        (candidate.decision_id, candidate.artifact_ids),
        (Some(resolved().decision_id), vec![artifact_id(3)])
    );
    assert!(candidate.similarity_percent.is_some_and(|percent| (89..=90).contains(&percent)));
    let relevant = RelevantDecision::from(resolved());
    assert_eq!((relevant.option.as_str(), relevant.reason.as_deref()), ("Cents", Some("They are exact.")));
    assert_eq!(relevant.description.as_deref(), Some("Whole numbers."));
    assert!(relevant.is_resolved);
}

#[test]
fn decision_and_artifact_have_one_issue_that_ends_the_window() {
    let found = |similarity, since| misaligned(&[(1, similarity)], since, true);
    assert_eq!(found(0.2, None)[0].id, found(0.9, None)[0].id, "one issue for both checks");
    assert_eq!(found(0.2, Some(20)).len(), 1, "the decision is new");
    assert_eq!(found(0.2, Some(21)), [], "nothing is new");
}

#[test]
fn embeddings_find_similar_artifacts_by_their_own_thresholds() {
    let severities = |similarity: f64| {
        let comparison = Comparison::Embeddings(vec![Some(towards(1.0)), Some(towards(similarity))]);
        let other = ComparedArtifact { workstream: WorkstreamId::parse("api").unwrap(), ..artifact(2) };
        let artifacts = [artifact(1), other];
        let texts = ScannedTexts {
            artifacts: &artifacts,
            decisions: &[],
            comparison: &comparison,
            thresholds: thresholds(),
            since: None,
            is_reviewed: false,
        };
        let Scan::Done { similar, .. } = texts.scan(project()) else { panic!("too many") };
        let engines = similar.iter().map(|it| match it.finding.source {
            IssueSource::Similarity { engine, .. } => (engine, it.finding.severity),
            _ => panic!("{it:?}"),
        });
        engines.collect::<Vec<_>>()
    };
    let engine = ComparisonEngine::Embeddings;
    assert_eq!(severities(0.87), [(engine, Severity::Medium)]);
    assert_eq!(severities(0.8), [(engine, Severity::Low)]);
    assert_eq!(severities(0.6), []);
}
