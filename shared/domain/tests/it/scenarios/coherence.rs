//! Coherence issues: the rules of layer 0, the states of an issue, and the score (decision 88).

use pilothouse_domain::artifact::{ArtifactAuthor, ArtifactKind, ArtifactPath, MimeType};
use pilothouse_domain::coherence::comparison::{ComparedArtifact, Comparison, Thresholds};
use pilothouse_domain::coherence::lexical::{Corpus, Features, has_words};
use pilothouse_domain::coherence::similarity::{MAX_ARTIFACTS, Scan, ScannedTexts, is_comparable};
use pilothouse_domain::coherence::structural::{
    ArtifactTrace, CheckedVersion, Evidence, Recommendation, WINDOW_TICKS, check, decision_conflict,
};
use pilothouse_domain::coherence::{
    CoherenceCategory, CoherenceError as X, CoherenceEvent as E, CoherenceIssue, CoherenceMonitorConfig,
    CoherenceScore, CoherenceState as S, CoherenceTrend, ComparisonEngine, Detected, Finding, IssueSource,
    OpenIssues, ReviewLedger, ScoredIssue, StructuralCheck, flagged_issue_id,
};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::knowledge::CoherenceIssueSummary;
use pilothouse_domain::project_agent::AgentBrief;
use pilothouse_domain::text::{Feedback, WorkstreamId};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::value::{ContentHash, KnowledgeScope};
use pilothouse_domain::{
    AgentSessionId, Aggregate as _, ArtifactId, CoherenceIssueId, Deadlines, DecisionId, DomainContext,
    ProjectAgentId, ProjectId, Timestamp, UserId,
};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

fn at<T>(millis: i64, decide: impl FnOnce(&DomainContext<'_>) -> T) -> T {
    let mut ids = || Uuid::nil();
    decide(&DomainContext::new(Timestamp::from_millis(millis), Deadlines::default(), &mut ids))
}

fn thresholds() -> Thresholds {
    ReviewLedger::default().thresholds(ComparisonEngine::Lexical, &CoherenceMonitorConfig::default())
}

fn owner() -> UserId {
    UserId::parse("ada").unwrap()
}

fn project() -> ProjectId {
    ProjectId::new(Uuid::from_u128(1))
}

fn workstream(id: &str) -> WorkstreamId {
    WorkstreamId::parse(id).unwrap()
}

fn agent_id(n: u128) -> ProjectAgentId {
    ProjectAgentId::new(Uuid::from_u128(n))
}

fn agent(n: u128) -> ArtifactAuthor {
    let session_id = AgentSessionId::new(Uuid::from_u128(n));
    ArtifactAuthor::Agent { agent_id: agent_id(n), session_id, run_id: None, tool_call_id: None }
}

fn person() -> ArtifactAuthor {
    ArtifactAuthor::Person { id: owner() }
}

fn artifact(n: u128) -> ArtifactId {
    ArtifactId::new(Uuid::from_u128(n))
}

fn path() -> ArtifactPath {
    ArtifactPath::parse("src/api.ts").unwrap()
}

/// The artifact `n` of agent `n`, as others find it.
fn trace(n: u128, id: &str, tick: u64) -> ArtifactTrace {
    ArtifactTrace {
        artifact_id: artifact(n),
        workstream: workstream(id),
        path: path(),
        version: 1,
        author: agent(n),
        stored_at: Timestamp::from_millis(i64::try_from(tick).unwrap()),
        tick: Tick::new(tick),
    }
}

/// A version of artifact 1 of workstream `api`, written at tick 200.
struct Given {
    author: ArtifactAuthor,
    path: ArtifactPath,
    workstream: WorkstreamId,
    is_empty: bool,
    previous: Option<(ArtifactAuthor, Tick)>,
    scope: Option<KnowledgeScope>,
}

fn written() -> Given {
    Given {
        author: agent(1),
        path: path(),
        workstream: workstream("api"),
        is_empty: false,
        previous: None,
        scope: None,
    }
}

impl Given {
    fn check(&self, evidence: &Evidence) -> Vec<Detected> {
        let version = CheckedVersion {
            project: project(),
            artifact_id: artifact(1),
            workstream: &self.workstream,
            path: &self.path,
            source_path: Some(&self.path),
            author: &self.author,
            is_empty: self.is_empty,
            stored_at: Timestamp::from_millis(200),
            tick: Tick::new(200),
            previous: self.previous.as_ref().map(|(author, tick)| (author, *tick)),
        };
        check(&version, evidence, self.scope.as_ref())
    }

    fn beside(&self, at_path: &[ArtifactTrace]) -> Vec<Detected> {
        self.check(&Evidence { at_path: at_path.to_vec(), ..Evidence::default() })
    }

    fn with_copies(&self, with_content: &[ArtifactTrace]) -> Vec<Detected> {
        self.check(&Evidence { with_content: with_content.to_vec(), ..Evidence::default() })
    }

    fn from(&self, sources: &[(u128, &str)]) -> Vec<Detected> {
        let sources = sources.iter().map(|(n, id)| (artifact(*n), workstream(id))).collect();
        self.check(&Evidence { sources, ..Evidence::default() })
    }
}

fn checks(detected: &[Detected]) -> Vec<StructuralCheck> {
    let check = |it: &Detected| match it.finding.source {
        IssueSource::Structural { check } => Some(check),
        IssueSource::Similarity { .. }
        | IssueSource::Alignment { .. }
        | IssueSource::Agent { .. }
        | IssueSource::Person { .. } => None,
    };
    detected.iter().filter_map(check).collect()
}

#[test]
fn agents_that_report_the_same_file_conflict() {
    let found = written().beside(&[trace(1, "api", 200), trace(2, "docs", 150)]);
    assert_eq!(checks(&found), [StructuralCheck::FileConflict]);
    let finding = &found[0].finding;
    assert_eq!((finding.category, finding.severity), (CoherenceCategory::Contradiction, Severity::High));
    assert_eq!(finding.affected_artifact_ids, [artifact(1), artifact(2)]);
    assert_eq!(finding.affected_agent_ids, [agent_id(1), agent_id(2)]);
    assert_eq!(finding.affected_workstreams, [workstream("api"), workstream("docs")]);
    assert!(finding.title.contains("src/api.ts"), "{}", finding.title);
}

#[test]
fn file_conflict_has_a_window_in_both_directions() {
    let conflicts = |tick| written().beside(&[trace(2, "api", tick)]).len();
    assert_eq!(WINDOW_TICKS, 100);
    assert_eq!([99, 100, 200, 300, 301].map(conflicts), [0, 1, 1, 1, 0]);
}

#[test]
fn only_different_agents_conflict_about_a_file() {
    let other = |author| ArtifactTrace { author, ..trace(2, "api", 200) };
    assert_eq!(written().beside(&[other(agent(1))]), [], "another artifact of the same agent");
    assert_eq!(written().beside(&[other(person())]), [], "a person");
    let by_person = Given { author: person(), ..written() };
    assert_eq!(by_person.beside(&[trace(2, "api", 200)]), []);
}

#[test]
fn latest_of_several_other_writers_is_named() {
    let found = written().beside(&[trace(3, "api", 190), trace(2, "api", 195), trace(4, "api", 120)]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].finding.affected_artifact_ids, [artifact(1), artifact(2)]);
}

#[test]
fn both_sides_of_a_pair_have_the_same_issue() {
    let mine = written().beside(&[trace(2, "api", 200)]);
    let theirs = CheckedVersion {
        project: project(),
        artifact_id: artifact(2),
        workstream: &workstream("api"),
        path: &path(),
        source_path: Some(&path()),
        author: &agent(2),
        is_empty: false,
        stored_at: Timestamp::from_millis(200),
        tick: Tick::new(200),
        previous: None,
    };
    let evidence = Evidence { at_path: vec![trace(1, "api", 200)], ..Evidence::default() };
    assert_eq!(check(&theirs, &evidence, None)[0].id, mine[0].id);
    let duplicate = written().with_copies(&[trace(2, "docs", 1)]);
    assert_ne!(duplicate[0].id, mine[0].id, "another rule about the same pair");
}

#[test]
fn two_agents_that_write_one_artifact_conflict_within_the_window() {
    let after = |author, tick| Given { previous: Some((author, Tick::new(tick))), ..written() };
    let found = after(agent(2), 150).beside(&[]);
    assert_eq!(checks(&found), [StructuralCheck::ConcurrentVersions]);
    let finding = &found[0].finding;
    assert_eq!((finding.category, finding.severity), (CoherenceCategory::Contradiction, Severity::High));
    assert_eq!(finding.affected_artifact_ids, [artifact(1)]);
    assert_eq!(finding.affected_agent_ids, [agent_id(2), agent_id(1)]);
    assert_eq!(finding.affected_workstreams, [workstream("api")]);
    assert_eq!(after(agent(2), 99).beside(&[]), []);
    assert_eq!(after(agent(1), 150).beside(&[]), [], "the same agent");
    assert_eq!(after(person(), 150).beside(&[]), [], "a person");
}

#[test]
fn same_content_in_two_workstreams_is_a_duplicate() {
    let found = written().with_copies(&[trace(3, "docs", 9), trace(2, "web", 4), trace(1, "api", 200)]);
    assert_eq!(checks(&found), [StructuralCheck::DuplicateArtifact]);
    let finding = &found[0].finding;
    assert_eq!((finding.category, finding.severity), (CoherenceCategory::Duplication, Severity::Low));
    assert_eq!(finding.affected_artifact_ids, [artifact(1), artifact(2)], "the oldest one");
    assert_eq!(finding.affected_agent_ids, [agent_id(1), agent_id(2)]);
    assert_eq!(finding.affected_workstreams, [workstream("api"), workstream("web")]);
    assert_eq!(written().with_copies(&[trace(2, "api", 4)]), [], "the same workstream");
    let empty = Given { is_empty: true, ..written() };
    assert_eq!(empty.with_copies(&[trace(2, "web", 4)]), [], "an empty file");
}

#[test]
fn sources_that_the_agent_may_not_read_violate_its_dependencies() {
    let brief = json!({ "role": "Builder", "workstream": "api", "readableWorkstreams": ["docs"] });
    let brief: AgentBrief = serde_json::from_value(brief).unwrap();
    let given = Given { scope: Some(brief.knowledge_scope()), ..written() };
    assert_eq!(given.from(&[(2, "api"), (3, "docs")]), []);
    let found = given.from(&[(2, "api"), (5, "web"), (4, "web")]);
    assert_eq!(checks(&found), [StructuralCheck::DependencyViolation]);
    let finding = &found[0].finding;
    assert_eq!(
        (finding.category, finding.severity),
        (CoherenceCategory::DependencyViolation, Severity::Medium)
    );
    assert_eq!(finding.affected_artifact_ids, [artifact(1), artifact(4), artifact(5)]);
    assert_eq!(finding.affected_agent_ids, [agent_id(1)]);
    assert_eq!(finding.affected_workstreams, [workstream("api"), workstream("web")]);
    assert_eq!(given.from(&[(4, "web"), (5, "web")])[0].id, found[0].id, "the same sources");
    assert_ne!(given.from(&[(4, "web")])[0].id, found[0].id, "other sources");
    assert_eq!(written().from(&[(4, "web")]), [], "people may read everything");
}

fn recommends(n: u128, option: &str) -> Recommendation {
    Recommendation {
        decision_id: DecisionId::new(Uuid::from_u128(n)),
        agent_id: agent_id(n),
        workstream: workstream("api"),
        question: "Which store?".to_owned(),
        option: option.to_owned(),
        proposed_at: Timestamp::from_millis(1),
    }
}

#[test]
fn different_recommendations_for_an_artifact_conflict() {
    let own = recommends(1, "SQLite");
    let conflict = |others: &[Recommendation]| decision_conflict(project(), artifact(9), &own, others);
    let found = conflict(&[recommends(1, "SQLite"), recommends(2, "Redis")]).unwrap();
    assert_eq!(checks(std::slice::from_ref(&found)), [StructuralCheck::DecisionConflict]);
    let finding = &found.finding;
    assert_eq!((finding.category, finding.severity), (CoherenceCategory::Contradiction, Severity::High));
    assert_eq!(finding.affected_artifact_ids, [artifact(9)]);
    assert_eq!(finding.affected_agent_ids, [agent_id(1), agent_id(2)]);
    assert_eq!(finding.affected_workstreams, [workstream("api")]);
    let reversed =
        decision_conflict(project(), artifact(9), &recommends(2, "Redis"), std::slice::from_ref(&own));
    assert_eq!(reversed.unwrap().id, found.id);
    assert_eq!(conflict(&[recommends(2, " sqlite ")]), None, "the same option");
    let mine = Recommendation { agent_id: agent_id(1), ..recommends(2, "Redis") };
    assert_eq!(conflict(&[mine]), None, "another decision of the same agent");
}

fn finding(evidence: i64) -> Finding {
    let mut found = written().beside(&[trace(2, "docs", 150)]);
    Finding { evidence_at: Timestamp::from_millis(evidence), ..found.remove(0).finding }
}

/// An issue that was detected at tick 5.
fn detected() -> CoherenceIssue {
    let id = CoherenceIssueId::new(Uuid::from_u128(3));
    let place = (owner(), project());
    let (issue, events) = at(10, |ctx| CoherenceIssue::detect(id, place, finding(10), Tick::new(5), ctx));
    assert!(matches!(&events[..], [E::Detected { severity: Severity::High, .. }]));
    issue
}

fn text(text: &str) -> Feedback {
    Feedback::parse(text).unwrap()
}

/// The states that the operations lead to, or why they are refused. An operation that changes nothing keeps the state.
#[test]
fn issue_follows_its_table_of_transitions() {
    let open = detected();
    let step = |issue: &CoherenceIssue, operation: &str| {
        let mut issue = issue.clone();
        let by = owner();
        let events = at(20, |ctx| match operation {
            "confirm" => issue.confirm(&by, ctx),
            "dismiss" => issue.dismiss(&by, Some(text("No")), Tick::new(7), ctx),
            _ => issue.resolve(&by, text("Merged"), Tick::new(7), ctx),
        });
        events.map(|events| (events.len(), issue.status().state(), issue))
    };
    let reach = |operation| step(&open, operation).unwrap().2;
    let over = |state| Err(X::Over { state });
    let table = [
        (open.clone(), [Ok((1, S::Confirmed)), Ok((1, S::Dismissed)), Ok((1, S::Resolved))]),
        (reach("confirm"), [Ok((0, S::Confirmed)), Err(X::Confirmed), Ok((1, S::Resolved))]),
        (reach("dismiss"), [over(S::Dismissed), Ok((0, S::Dismissed)), over(S::Dismissed)]),
        (reach("resolve"), [over(S::Resolved), over(S::Resolved), Ok((0, S::Resolved))]),
    ];
    for (issue, expected) in table {
        for (operation, expected) in ["confirm", "dismiss", "resolve"].into_iter().zip(expected) {
            let reached = step(&issue, operation).map(|(events, state, _)| (events, state));
            assert_eq!(reached, expected, "{operation} in {:?}", issue.status());
        }
    }
}

#[test]
fn finding_again_reopens_only_what_was_resolved_before() {
    let again = |issue: &mut CoherenceIssue, evidence| {
        at(40, |ctx| issue.detect_again(finding(evidence), Tick::new(9), ctx)).len()
    };
    let mut open = detected();
    assert_eq!(again(&mut open, 99), 0);
    let mut dismissed = detected();
    at(20, |ctx| dismissed.dismiss(&owner(), None, Tick::new(7), ctx)).unwrap();
    assert_eq!(again(&mut dismissed, 99), 0);
    let mut resolved = detected();
    at(20, |ctx| resolved.resolve(&owner(), text("Merged"), Tick::new(7), ctx)).unwrap();
    assert_eq!(again(&mut resolved, 20), 0, "a late message about what was resolved");
    assert_eq!(again(&mut resolved, 21), 1);
    assert_eq!(resolved.status().state(), S::Open);
    assert_eq!((resolved.detected_tick(), resolved.scored().ended), (Tick::new(9), None));
}

#[test]
fn open_issues_are_listed_before_the_others() {
    let open = detected();
    let mut resolved = detected();
    at(900, |ctx| resolved.resolve(&owner(), text("Merged"), Tick::new(7), ctx)).unwrap();
    assert!(open.listing_sort() > resolved.listing_sort(), "the list is descending");
    assert!(open.listing_sort().starts_with(&CoherenceIssue::listing_prefix(project(), true)));
    assert!(resolved.listing_sort().starts_with(&CoherenceIssue::listing_prefix(project(), false)));
}

#[test]
fn flagged_issue_is_the_same_in_any_order_of_its_artifacts() {
    let id = |agent, title: &str, artifacts: &[ArtifactId]| {
        flagged_issue_id(project(), agent_id(agent), CoherenceCategory::Gap, title, artifacts)
    };
    let first = id(1, "No retry", &[artifact(1), artifact(2)]);
    assert_eq!(id(1, "No retry", &[artifact(2), artifact(1)]), first);
    assert_ne!(id(2, "No retry", &[artifact(1), artifact(2)]), first);
    assert_ne!(id(1, "No limit", &[artifact(1), artifact(2)]), first);
}

#[test]
fn agent_sees_no_title_that_names_what_it_may_not_read() {
    let scope = |reads: &[&str]| {
        let brief = json!({ "role": "Builder", "workstream": "api", "readableWorkstreams": reads });
        serde_json::from_value::<AgentBrief>(brief).unwrap().knowledge_scope()
    };
    let title = |reads: &[&str]| CoherenceIssueSummary::of(&detected(), &scope(reads)).title;
    assert_eq!(title(&["docs"]), "Two agents edit src/api.ts");
    assert_eq!(title(&[]), "contradiction with a workstream that you may not read");
}

fn similarity(one: &str, other: &str) -> f64 {
    let texts = [Features::of(one), Features::of(other)];
    let corpus: Corpus = texts.iter().collect();
    corpus.weigh(&texts[0]).similarity(&corpus.weigh(&texts[1]))
}

const TOTALS: &str = "Order totals are computed on the server. Prices are in cents.";

#[test]
fn same_text_has_similarity_1_and_other_words_0() {
    assert!((similarity(TOTALS, TOTALS) - 1.0).abs() < 1e-9);
    assert!(
        (similarity(TOTALS, "ORDER TOTALS are computed on the SERVER; prices are in cents!") - 1.0).abs()
            < 1e-9
    );
    assert!(similarity(TOTALS, "Logs rotate daily") < 0.05);
    assert!(Features::of("the of and, it is").is_empty(), "words without a subject");
    assert!(!has_words("The of AND, it is") && has_words("The totals"));
    assert!(similarity("", TOTALS).abs() < 1e-9);
}

/// An artifact with its text, stored before the last scan at 10, or since then.
fn compared(n: u128, id: &str, is_changed: bool, text: &str) -> (ComparedArtifact, String) {
    let artifact = ComparedArtifact {
        id: artifact(n),
        workstream: workstream(id),
        path: ArtifactPath::parse(format!("{n}.md")).unwrap(),
        author: Some(agent_id(n)),
        stored_at: Timestamp::from_millis(if is_changed { 10 } else { 9 }),
        content_hash: ContentHash::parse(format!("{n:064x}")).unwrap(),
    };
    (artifact, text.to_owned())
}

fn scan(artifacts: &[(ComparedArtifact, String)], thresholds: Thresholds) -> Scan {
    let comparison = Comparison::lexical(artifacts.iter().map(|(_, text)| text.as_str()), [], None);
    let artifacts: Vec<_> = artifacts.iter().map(|(artifact, _)| artifact.clone()).collect();
    let texts = ScannedTexts {
        artifacts: &artifacts,
        decisions: &[],
        comparison: &comparison,
        thresholds,
        since: Some(Timestamp::from_millis(10)),
        is_reviewed: true,
    };
    texts.scan(project())
}

fn similar(artifacts: &[(ComparedArtifact, String)], thresholds: Thresholds) -> Vec<Detected> {
    let Scan::Done { similar, .. } = scan(artifacts, thresholds) else { panic!("too many") };
    similar
}

fn pairs_of(artifacts: &[(ComparedArtifact, String)]) -> Vec<Vec<ArtifactId>> {
    similar(artifacts, thresholds()).into_iter().map(|it| it.finding.affected_artifact_ids).collect()
}

#[test]
fn same_content_is_not_a_second_issue() {
    let [first, mut second] = [compared(1, "api", true, TOTALS), compared(2, "docs", true, TOTALS)];
    assert_eq!(pairs_of(&[first.clone(), second.clone()]).len(), 1);
    second.0.content_hash = first.0.content_hash.clone();
    assert_eq!(pairs_of(&[first, second]), [] as [Vec<ArtifactId>; 0]);
}

#[test]
fn only_changed_artifacts_are_compared_with_the_others() {
    let with = |first, second, third| {
        pairs_of(&[
            compared(1, "api", first, TOTALS),
            compared(2, "docs", second, TOTALS),
            compared(3, "api", third, TOTALS),
        ])
    };
    assert_eq!(with(false, false, false), [] as [Vec<ArtifactId>; 0]);
    assert_eq!(with(true, false, false), [[artifact(1), artifact(2)]], "not within a workstream");
    assert_eq!(with(false, true, false).len(), 2);
}

#[test]
fn scan_of_too_many_artifacts_compares_nothing() {
    let many: Vec<_> = (0..=MAX_ARTIFACTS as u128).map(|n| compared(n, "api", true, TOTALS)).collect();
    assert_eq!(scan(&many, thresholds()), Scan::TooMany { artifacts: MAX_ARTIFACTS + 1 });
    assert!(matches!(scan(&many[1..], thresholds()), Scan::Done { .. }));
}

#[test]
fn similar_texts_are_unconfirmed_issues_by_threshold() {
    let severities = |thresholds| {
        let pair = [compared(1, "api", true, TOTALS), compared(2, "docs", true, TOTALS)];
        let found = similar(&pair, thresholds);
        assert!(found.iter().all(|it| it.finding.description.contains("Nobody has confirmed it")));
        found.iter().map(|it| (it.finding.category, it.finding.severity)).collect::<Vec<_>>()
    };
    let duplication = CoherenceCategory::Duplication;
    let thresholds = |promotion, advisory| Thresholds { promotion, advisory, ..thresholds() };
    assert_eq!(severities(thresholds(0.9, 0.5)), [(duplication, Severity::Medium)]);
    assert_eq!(severities(thresholds(1.1, 0.5)), [(duplication, Severity::Low)]);
    assert_eq!(severities(thresholds(1.2, 1.1)), []);
    let pair = [compared(1, "api", true, TOTALS), compared(2, "docs", true, TOTALS)];
    let finding = similar(&pair, thresholds(0.9, 0.5)).remove(0).finding;
    assert_eq!(finding.affected_artifact_ids, [artifact(1), artifact(2)]);
    assert_eq!(finding.affected_agent_ids, [agent_id(1), agent_id(2)]);
    assert_eq!(finding.affected_workstreams, [workstream("api"), workstream("docs")]);
}

#[test]
fn only_texts_are_compared() {
    let comparable = |kind, mime| is_comparable(kind, &MimeType::parse(mime).unwrap());
    for kind in [ArtifactKind::Code, ArtifactKind::Config, ArtifactKind::Test, ArtifactKind::Document] {
        assert!(comparable(kind, "text/plain"), "{kind}");
    }
    assert!(comparable(ArtifactKind::Document, "application/json"));
    for kind in [ArtifactKind::Code, ArtifactKind::Config, ArtifactKind::Test, ArtifactKind::Other] {
        assert!(!comparable(kind, "application/json"), "{kind}");
    }
    assert!(!comparable(ArtifactKind::Document, "application/pdf"));
    assert!(!comparable(ArtifactKind::Design, "image/png"));
    assert!(!comparable(ArtifactKind::Other, "application/octet-stream"));
}

fn scored(severity: Severity, detected: u64, ended: Option<u64>) -> ScoredIssue {
    ScoredIssue { severity, detected: Tick::new(detected), ended: ended.map(Tick::new) }
}

#[test]
fn score_subtracts_the_penalties_of_open_issues() {
    let of = |issues: &[ScoredIssue]| CoherenceScore::now(issues).points();
    let one = |severity| of(&[scored(severity, 0, None)]);
    assert_eq!(Severity::ALL.map(one), [100, 99, 97, 92, 85]);
    assert_eq!(of(&[]), 100);
    assert_eq!(of(&[scored(Severity::Critical, 0, Some(3)), scored(Severity::Low, 0, None)]), 99);
    assert_eq!(of(&[scored(Severity::Critical, 0, None); 7]), 0, "not below zero");
}

#[test]
fn trend_compares_with_the_score_ten_ticks_ago() {
    let trend = |issues: &[ScoredIssue], tick| {
        let before = CoherenceScore::before(issues, Tick::new(tick));
        CoherenceTrend::between(before, CoherenceScore::now(issues))
    };
    let new = [scored(Severity::High, 20, None)];
    assert_eq!([20, 29, 30].map(|tick| trend(&new, tick)), {
        use CoherenceTrend::{Declining, Stable};
        [Declining, Declining, Stable]
    });
    let resolved = [scored(Severity::High, 5, Some(20))];
    assert_eq!([20, 29, 30].map(|tick| trend(&resolved, tick)), {
        use CoherenceTrend::{Improving, Stable};
        [Improving, Improving, Stable]
    });
    assert_eq!(trend(&[scored(Severity::High, 0, None)], 0), CoherenceTrend::Declining);
}

proptest! {
    #[test]
    fn similarity_is_symmetric_and_within_0_and_1(one in "[a-d ]{0,40}", other in "[a-d ]{0,40}") {
        let there = similarity(&one, &other);
        prop_assert!((0.0..=1.0).contains(&there));
        prop_assert!((there - similarity(&other, &one)).abs() < 1e-9);
    }

    /// The rules are symmetric: whoever writes last, a pair of artifacts has the same issues.
    #[test]
    fn pair_has_one_issue_whoever_writes_last(one in 0u64..400, other in 0u64..400, shared in any::<bool>()) {
        let place = if shared { "api" } else { "docs" };
        let side = |n: u128, tick: u64, id: &str, beside: ArtifactTrace| {
            let (workstream, path, author) = (workstream(id), path(), agent(n));
            let version = CheckedVersion {
                project: project(), artifact_id: artifact(n), workstream: &workstream, path: &path,
                source_path: Some(&path), author: &author, is_empty: false,
                stored_at: Timestamp::from_millis(1), tick: Tick::new(tick), previous: None,
            };
            let evidence = Evidence { at_path: vec![beside.clone()], with_content: vec![beside], ..Evidence::default() };
            let ids: Vec<_> = check(&version, &evidence, None).into_iter().map(|it| it.id).collect();
            ids
        };
        let first = side(1, one, "api", trace(2, place, other));
        let second = side(2, other, place, trace(1, "api", one));
        let conflict = usize::from(one.abs_diff(other) <= WINDOW_TICKS);
        prop_assert_eq!(first.len(), conflict + usize::from(!shared));
        prop_assert_eq!(first, second);
    }

    #[test]
    fn score_is_between_0_and_100_and_counts_every_open_issue(
        issues in prop::collection::vec((0usize..5, 0u64..50, prop::option::of(0u64..50)), 0..60)
    ) {
        let issues: Vec<_> = issues.iter().map(|(at, from, to)| scored(Severity::ALL[*at], *from, *to)).collect();
        prop_assert!(CoherenceScore::now(&issues).points() <= CoherenceScore::MAX);
        let open = OpenIssues::count(&issues);
        let counted = open.critical + open.high + open.medium + open.low + open.warning;
        prop_assert_eq!(counted as usize, issues.iter().filter(|it| it.ended.is_none()).count());
    }
}
