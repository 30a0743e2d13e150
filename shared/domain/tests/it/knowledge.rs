//! Properties of snapshots: they fit their number of tokens, stay in the scope of the agent, and depend on their input only.

use pilothouse_domain::artifact::ArtifactKind;
use pilothouse_domain::coherence::CoherenceCategory;
use pilothouse_domain::decision::DecisionKind;
use pilothouse_domain::effect::Severity;
use pilothouse_domain::knowledge::{
    AgentSummary, ArtifactIndexEntry, ArtifactStatus, CoherenceIssueSummary, DecisionSummary,
    KnowledgeSnapshot, ProjectKnowledge, TokenBudget, WorkstreamStatus, WorkstreamSummary, estimated_tokens,
};
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::project_agent::AgentBrief;
use pilothouse_domain::text::{AdapterName, AgentRole, ArtifactName, ModelId, WorkstreamId, WorkstreamName};
use pilothouse_domain::value::KnowledgeScope;
use pilothouse_domain::{ArtifactId, DecisionId, ProjectAgentId, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

const WORKSTREAMS: [&str; 4] = ["api", "docs", "secret", "web"];

fn workstream() -> impl Strategy<Value = WorkstreamId> {
    prop::sample::select(WORKSTREAMS.to_vec()).prop_map(|id| WorkstreamId::parse(id).unwrap())
}

fn text(max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!['a', 'B', '7', ' ', '-', 'é', '日']), 1..max)
        .prop_map(|chars| format!("x{}", chars.into_iter().collect::<String>()))
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn artifact() -> impl Strategy<Value = ArtifactIndexEntry> {
    (uuid(), text(60), workstream(), any::<u32>()).prop_map(|(id, name, workstream, version)| {
        ArtifactIndexEntry {
            id: ArtifactId::new(id),
            name: ArtifactName::parse(name).unwrap(),
            kind: ArtifactKind::Code,
            status: ArtifactStatus::InReview,
            workstream,
            version,
        }
    })
}

fn decision() -> impl Strategy<Value = DecisionSummary> {
    (uuid(), text(120), uuid(), workstream()).prop_map(|(id, title, agent, workstream)| DecisionSummary {
        id: DecisionId::new(id),
        title,
        severity: Severity::High,
        agent_id: ProjectAgentId::new(agent),
        workstream,
        subtype: DecisionKind::Option,
    })
}

fn issue() -> impl Strategy<Value = CoherenceIssueSummary> {
    (text(200), prop::collection::vec(workstream(), 1..4)).prop_map(|(title, affected_workstreams)| {
        CoherenceIssueSummary {
            id: "issue".to_owned(),
            title,
            severity: Severity::Low,
            category: CoherenceCategory::Duplication,
            affected_workstreams,
        }
    })
}

fn agent() -> impl Strategy<Value = AgentSummary> {
    (0_u128..20, text(100), workstream()).prop_map(|(id, role, workstream)| AgentSummary {
        id: ProjectAgentId::new(Uuid::from_u128(id)),
        role: AgentRole::parse(role).unwrap(),
        workstream,
        status: AgentStatus::Running,
        plugin_name: Some(AdapterName::parse("claude").unwrap()),
        model_preference: Some(ModelId::parse("opus").unwrap()),
    })
}

fn activity(id: &str, name: String, agents: u128, recent_activity: String) -> WorkstreamSummary {
    WorkstreamSummary {
        id: WorkstreamId::parse(id).unwrap(),
        name: WorkstreamName::parse(name).unwrap(),
        status: WorkstreamStatus::Active,
        active_agent_ids: (0..agents).map(|n| ProjectAgentId::new(Uuid::from_u128(n << 90))).collect(),
        artifact_count: 10_000,
        pending_decision_count: 3,
        recent_activity,
    }
}

fn knowledge() -> impl Strategy<Value = ProjectKnowledge> {
    let workstreams = (text(199), 0_u128..100, text(400)).prop_map(|(name, agents, recent)| {
        WORKSTREAMS.map(|id| activity(id, name.clone(), agents, recent.clone())).to_vec()
    });
    (
        workstreams,
        prop::collection::vec(decision(), 0..40),
        prop::collection::vec(issue(), 0..20),
        prop::collection::vec(artifact(), 0..200),
        prop::collection::vec(agent(), 0..100),
    )
        .prop_map(|(workstreams, pending_decisions, recent_coherence_issues, artifacts, agents)| {
            ProjectKnowledge { workstreams, pending_decisions, recent_coherence_issues, artifacts, agents }
        })
}

/// The agent of workstream `api` that also reads `docs`.
fn scope() -> KnowledgeScope {
    let brief = json!({ "role": "Builder", "workstream": "api", "readableWorkstreams": ["docs"] });
    serde_json::from_value::<AgentBrief>(brief).unwrap().knowledge_scope()
}

fn me() -> ProjectAgentId {
    ProjectAgentId::new(Uuid::from_u128(1))
}

fn build(knowledge: &ProjectKnowledge, tokens: u64) -> KnowledgeSnapshot {
    let budget = TokenBudget::new(tokens).unwrap();
    KnowledgeSnapshot::build(me(), &scope(), knowledge.clone(), budget, Timestamp::from_millis(5))
}

/// The workstreams that a value names.
fn named(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value.as_str() {
                    Some(text) if field == "workstream" => found.push(text.to_owned()),
                    _ => named(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| {
            match item.as_str() {
                // Of an issue.
                Some(text) if WORKSTREAMS.contains(&text) => found.push(text.to_owned()),
                _ => named(item, found),
            }
        }),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn snapshot_is_never_above_its_budget(knowledge in knowledge(), tokens in 1_000_u64..8_000) {
        let snapshot = build(&knowledge, tokens).with_version(u64::MAX);
        prop_assert!(estimated_tokens(&snapshot.json()) <= tokens);
        prop_assert!(snapshot.estimated_tokens <= tokens);
    }

    #[test]
    fn snapshot_never_leaves_the_scope_of_its_agent(knowledge in knowledge(), tokens in 1_000_u64..32_000) {
        let snapshot = build(&knowledge, tokens);
        let mut found = Vec::new();
        named(&serde_json::to_value(&snapshot).unwrap(), &mut found);
        found.extend(snapshot.workstreams.iter().map(|it| it.id.to_string()));
        prop_assert!(found.iter().all(|id| ["api", "docs"].contains(&id.as_str())), "{found:?}");
        prop_assert!(snapshot.active_agents.iter().all(|it| it.id != me()));
        prop_assert_eq!(snapshot.workstreams[0].id.as_str(), "api");
    }

    #[test]
    fn same_input_gives_the_same_bytes(knowledge in knowledge(), tokens in 1_000_u64..8_000) {
        let (one, other) = (build(&knowledge, tokens), build(&knowledge, tokens));
        prop_assert_eq!(one.json(), other.json());
        prop_assert_eq!(one.content_hash(), other.with_version(9).content_hash());
    }

    #[test]
    fn everything_is_listed_or_counted_as_omitted(knowledge in knowledge(), tokens in 1_000_u64..8_000) {
        let snapshot = build(&knowledge, tokens);
        let readable = knowledge.artifacts.iter().filter(|it| scope().may_read(&it.workstream)).count();
        prop_assert_eq!(snapshot.artifact_index.len() + snapshot.omitted.artifacts, readable);
        let waiting = knowledge.pending_decisions.iter().filter(|it| scope().may_read(&it.workstream)).count();
        prop_assert_eq!(snapshot.pending_decisions.len() + snapshot.omitted.pending_decisions, waiting);
    }
}

/// Knowledge with `artifacts` artifacts of each workstream, a decision and an issue of each, and one other agent.
fn with_artifacts(artifacts: u128) -> ProjectKnowledge {
    let id = |text: &str| WorkstreamId::parse(text).unwrap();
    let artifact = |n: u128, workstream: &str| ArtifactIndexEntry {
        id: ArtifactId::new(Uuid::from_u128(n << 64)),
        name: ArtifactName::parse(format!("Artifact {n}")).unwrap(),
        kind: ArtifactKind::Document,
        status: ArtifactStatus::Approved,
        workstream: id(workstream),
        version: 1,
    };
    let decision = |workstream: &str| DecisionSummary {
        id: DecisionId::new(Uuid::from_u128(7)),
        title: "Which guide comes first?".to_owned(),
        severity: Severity::Medium,
        agent_id: ProjectAgentId::new(Uuid::from_u128(2)),
        workstream: id(workstream),
        subtype: DecisionKind::Option,
    };
    ProjectKnowledge {
        workstreams: ["docs", "api"].map(|id| activity(id, id.to_owned(), 1, String::new())).to_vec(),
        pending_decisions: ["api", "docs"].map(decision).to_vec(),
        recent_coherence_issues: vec![CoherenceIssueSummary {
            id: "issue".to_owned(),
            title: "word ".repeat(40),
            severity: Severity::High,
            category: CoherenceCategory::Contradiction,
            affected_workstreams: vec![id("api"), id("secret")],
        }],
        artifacts: (0..artifacts).flat_map(|n| ["api", "docs"].map(|it| artifact(n, it))).collect(),
        agents: vec![AgentSummary {
            id: ProjectAgentId::new(Uuid::from_u128(2)),
            role: AgentRole::parse("Writer").unwrap(),
            workstream: id("docs"),
            status: AgentStatus::Running,
            plugin_name: Some(AdapterName::parse("claude").unwrap()),
            model_preference: None,
        }],
    }
}

/// What was trimmed: issues shortened, artifacts of other workstreams, names of plugins, decisions of other workstreams.
fn trimmed(snapshot: &KnowledgeSnapshot) -> [bool; 4] {
    let issue = snapshot.recent_coherence_issues.first();
    [
        issue.is_none_or(|issue| issue.title.ends_with('…')),
        !snapshot.artifact_index.iter().any(|it| it.workstream.as_str() == "docs"),
        snapshot.active_agents.first().is_none_or(|agent| agent.plugin_name.is_none()),
        !snapshot.pending_decisions.iter().any(|it| it.workstream.as_str() == "docs"),
    ]
}

#[test]
fn parts_are_trimmed_in_the_order_of_the_specification() {
    let knowledge = with_artifacts(20);
    let all = build(&knowledge, TokenBudget::MAX);
    assert_eq!(trimmed(&all), [false; 4]);
    let snapshots: Vec<_> =
        (1_000..=all.estimated_tokens).rev().map(|tokens| build(&knowledge, tokens)).collect();
    let mut seen: Vec<_> = snapshots.iter().map(trimmed).collect();
    seen.dedup();
    let in_order = [
        [false, false, false, false],
        [true, false, false, false],
        [true, true, false, false],
        [true, true, true, false],
        [true, true, true, true],
    ];
    assert_eq!(seen, in_order);
    // What is left of the lists is shortened only afterwards.
    let last = snapshots.iter().find(|snapshot| trimmed(snapshot) == [true; 4]).unwrap();
    let lengths = (last.artifact_index.len(), last.active_agents.len(), last.pending_decisions.len());
    assert_eq!((lengths, last.recent_coherence_issues.len()), ((20, 1, 1), 1));
}

#[test]
fn budgets_have_limits() {
    assert_eq!(TokenBudget::DEFAULT.tokens(), 4_000);
    assert!(TokenBudget::new(999).is_err() && TokenBudget::new(32_001).is_err());
}
