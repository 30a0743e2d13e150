//! Projects and their agents (S2; decision 71).

use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::decision::{DecisionTimeoutPolicy, OnTimeout};
use pilothouse_domain::escalation::EscalationProtocol;
use pilothouse_domain::project::{
    ModePolicies, ModePolicy, Project, ProjectBrief, ProjectDefinition, ProjectError, ProjectEvent,
    Workstream,
};
use pilothouse_domain::project_agent::{AgentBrief, NewAgent, ProjectAgent, ProjectAgentEvent, brief_prompt};
use pilothouse_domain::text::{BriefConstraint, Goal, ProjectName, WorkstreamId, WorkstreamName};
use pilothouse_domain::trust::TrustCalibrationProfile;
use pilothouse_domain::{
    AgentSessionId, Deadlines, DomainContext, ProjectAgentId, ProjectId, Timestamp, UserId,
};
use serde_json::{Value, json};
use uuid::Uuid;

fn now<T>(decide: impl FnOnce(&mut DomainContext<'_>) -> T) -> T {
    let mut ids = || Uuid::nil();
    decide(&mut DomainContext::new(Timestamp::from_millis(1000), Deadlines::default(), &mut ids))
}

fn owner() -> UserId {
    UserId::parse("ada").unwrap()
}

fn workstream(id: &str) -> Workstream {
    Workstream {
        id: WorkstreamId::parse(id).unwrap(),
        name: WorkstreamName::parse(id.to_uppercase()).unwrap(),
        goals: vec![Goal::parse(format!("Finish {id}")).unwrap()],
    }
}

fn definition(workstreams: &[&str]) -> ProjectDefinition {
    ProjectDefinition {
        brief: ProjectBrief {
            name: ProjectName::parse("Shop").unwrap(),
            description: None,
            goals: vec![Goal::parse("Sell tea").unwrap()],
            checkpoints: Vec::new(),
            constraints: vec![BriefConstraint::parse("Never log card numbers").unwrap()],
        },
        workstreams: workstreams.iter().copied().map(workstream).collect(),
        policies: ModePolicies::new(),
        trust: TrustCalibrationProfile::default(),
    }
}

fn project(workstreams: &[&str]) -> Project {
    now(|ctx| {
        let id = ProjectId::new(Uuid::from_u128(1));
        Project::create(id, owner(), definition(workstreams), ControlMode::Adaptive, ctx).unwrap().0
    })
}

fn brief(json: Value) -> AgentBrief {
    serde_json::from_value(json).unwrap()
}

fn agent_id(n: u128) -> ProjectAgentId {
    ProjectAgentId::new(Uuid::from_u128(n))
}

fn id(text: &str) -> WorkstreamId {
    WorkstreamId::parse(text).unwrap()
}

#[test]
fn workstreams_of_a_project_have_distinct_ids() {
    let created = now(|ctx| {
        let project_id = ProjectId::new(Uuid::nil());
        Project::create(project_id, owner(), definition(&["api", "api"]), ControlMode::Adaptive, ctx)
    });
    assert_eq!(created.unwrap_err(), ProjectError::DuplicateWorkstream(id("api")));
}

#[test]
fn workstream_with_agents_cannot_be_removed() {
    let mut project = project(&["api", "docs"]);
    now(|ctx| project.add_agent(agent_id(1), id("api"), ctx)).unwrap();
    let before = project.clone();
    let removed = now(|ctx| project.update(definition(&["docs"]), ctx));
    assert_eq!(removed.unwrap_err(), ProjectError::WorkstreamInUse(id("api")));
    assert_eq!(project, before);
    assert_eq!(
        now(|ctx| project.update(definition(&["api"]), ctx)).unwrap(),
        [ProjectEvent::Updated {}],
        "a workstream without agents can be removed"
    );
}

#[test]
fn agents_join_workstreams_of_the_project_up_to_the_limit() {
    let mut project = project(&["api"]);
    let unknown = now(|ctx| project.add_agent(agent_id(0), id("web"), ctx));
    assert_eq!(unknown.unwrap_err(), ProjectError::NoSuchWorkstream(id("web")));
    for n in 0..Project::MAX_AGENTS {
        now(|ctx| project.add_agent(agent_id(n as u128), id("api"), ctx)).unwrap();
    }
    let again = now(|ctx| project.add_agent(agent_id(3), id("api"), ctx));
    assert_eq!(again.unwrap(), [], "the agent is in the project already");
    let one_more = now(|ctx| project.add_agent(agent_id(1000), id("api"), ctx));
    assert_eq!(one_more.unwrap_err(), ProjectError::TooMany { what: "agents", max: Project::MAX_AGENTS });
}

#[test]
fn archived_projects_refuse_changes_until_restored() {
    let mut project = project(&["api"]);
    assert_eq!(now(|ctx| project.archive(ctx)), [ProjectEvent::Archived {}]);
    assert_eq!(now(|ctx| project.archive(ctx)), []);
    let refusals = [
        now(|ctx| project.add_agent(agent_id(1), id("api"), ctx)),
        now(|ctx| project.set_control_mode(ControlMode::Orchestrator, ctx)),
        now(|ctx| project.update(definition(&["api", "web"]), ctx)),
    ];
    assert!(refusals.into_iter().all(|refused| refused == Err(ProjectError::Archived)));
    assert_eq!(now(|ctx| project.restore(ctx)), [ProjectEvent::Restored {}]);
    assert_eq!(now(|ctx| project.restore(ctx)), []);
    assert!(now(|ctx| project.add_agent(agent_id(1), id("api"), ctx)).is_ok());
}

#[test]
fn policies_of_the_current_mode_replace_its_defaults() {
    let mut project = project(&["api"]);
    let strict = EscalationProtocol::of_mode(ControlMode::Orchestrator);
    let timeout =
        DecisionTimeoutPolicy { timeout_ticks: Some(7), on_timeout: OnTimeout::Cancel, max_extensions: 0 };
    let mut definition = definition(&["api"]);
    definition.policies.insert(
        ControlMode::Ecosystem,
        ModePolicy { escalation: Some(strict.clone()), decision_timeout: Some(timeout) },
    );
    now(|ctx| project.update(definition, ctx)).unwrap();
    assert_eq!(project.escalation(), EscalationProtocol::of_mode(ControlMode::Adaptive));
    let changed = now(|ctx| project.set_control_mode(ControlMode::Ecosystem, ctx)).unwrap();
    assert!(
        matches!(changed[..], [ProjectEvent::ControlModeChanged { from: ControlMode::Adaptive, revision, .. }] if revision.get() == 1)
    );
    assert_eq!(project.escalation(), strict);
    assert_eq!(project.decision_timeout(), timeout);
    assert_eq!(now(|ctx| project.set_control_mode(ControlMode::Ecosystem, ctx)).unwrap(), []);
}

#[test]
fn brief_violations_are_all_named() {
    let project = project(&["api", "docs"]);
    let brief = brief(json!({
        "role": "Builder",
        "workstream": "web",
        "readableWorkstreams": ["docs", "docs", "web", "ops"],
        "allowedTools": ["Bash", " "],
        "escalationProtocol": {
            "alwaysEscalate": ["delete", "Bsh"], "escalateWhen": [], "neverEscalate": ["read", "pattern:none"],
        },
        "providerConfig": { "allowedTools": [], "apiKey": "sk-123" },
    }));
    let mut fields: Vec<_> = brief.check(&project).unwrap_err().into_iter().map(|(field, _)| field).collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "allowedTools[1]",
            "escalationProtocol.alwaysEscalate[1]",
            "escalationProtocol.neverEscalate[1]",
            "providerConfig.allowedTools",
            "providerConfig.apiKey",
            "readableWorkstreams[1]",
            "readableWorkstreams[2]",
            "readableWorkstreams[3]",
            "workstream",
        ]
    );
}

fn spawned(trust: &TrustCalibrationProfile) -> ProjectAgent {
    let new = NewAgent {
        id: agent_id(7),
        owner_id: owner(),
        project_id: ProjectId::new(Uuid::from_u128(1)),
        brief: brief(json!({
            "role": "Builder",
            "description": "Build the service.",
            "workstream": "api",
            "readableWorkstreams": ["docs"],
            "constraints": ["Write tests"],
            "escalationProtocol": { "alwaysEscalate": ["deploy"], "escalateWhen": [], "neverEscalate": [] },
        })),
        session_id: AgentSessionId::new(Uuid::from_u128(9)),
    };
    now(|ctx| ProjectAgent::spawn(new, trust, ctx)).0
}

#[test]
fn agent_continues_in_the_next_session() {
    let mut agent = spawned(&TrustCalibrationProfile::default());
    let (first, next) = (agent.current_session_id(), AgentSessionId::new(Uuid::from_u128(10)));
    let changed = now(|ctx| agent.continue_in(next, ctx));
    assert_eq!(changed, [ProjectAgentEvent::SessionChanged { from: first, to: next }]);
    assert_eq!((agent.current_session_id(), agent.session_count()), (next, 2));
    assert_eq!(now(|ctx| agent.continue_in(next, ctx)), [], "a repetition changes nothing");
}

#[test]
fn prompt_names_goals_and_rules_but_no_trust() {
    let mut trust = TrustCalibrationProfile::default();
    trust.config.initial_score = serde_json::from_value(json!(61.317)).unwrap();
    let agent = spawned(&trust);
    let prompt = brief_prompt(&project(&["api", "docs"]), &agent);
    for expected in [
        "\"Builder\"",
        "project \"Shop\"",
        "Build the service.",
        "- Sell tea",
        "workstream \"API\" (api)",
        "- Finish api",
        "- docs",
        "- Never log card numbers\n- Write tests",
    ] {
        assert!(prompt.contains(expected), "{expected} is missing in:\n{prompt}");
    }
    for secret in ["61.317", "61317", "deploy", "scalat", "rust"] {
        assert!(!prompt.contains(secret), "{secret} is in:\n{prompt}");
    }
}
