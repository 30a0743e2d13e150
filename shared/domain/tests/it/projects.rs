//! Projects and their agents (S2; decision 71).

use pilothouse_domain::coherence::CoherenceMonitorConfig;
use pilothouse_domain::control_mode::{ControlMode, ControlModeSetting, ModeRevision};
use pilothouse_domain::decision::{DecisionTimeoutPolicy, OnTimeout, TimeoutRule};
use pilothouse_domain::effect::Effects;
use pilothouse_domain::effect::pattern::ToolClassifications;
use pilothouse_domain::escalation::{EscalationProtocol, StandingApproval};
use pilothouse_domain::project::{
    ModePolicies, ModePolicy, Project, ProjectBrief, ProjectDefinition, ProjectError, ProjectEvent,
    Workstream,
};
use pilothouse_domain::project_agent::{AgentBrief, NewAgent, ProjectAgent, ProjectAgentEvent, brief_prompt};
use pilothouse_domain::text::{
    BriefConstraint, Checkpoint, Goal, ProjectDescription, ProjectName, WorkstreamId, WorkstreamName,
};
use pilothouse_domain::tick::{Tick, TickClock, TickConfig};
use pilothouse_domain::trust::{ReportedOutcome, TrustCalibrationProfile, TrustOutcome, TrustProfileName};
use pilothouse_domain::{
    AgentSessionId, Deadlines, DecisionId, DomainContext, EventId, ProjectAgentId, ProjectId, Timestamp,
    UserId,
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
        tool_patterns: ToolClassifications::default(),
        trust: TrustCalibrationProfile::default(),
        tick_config: TickConfig::default(),
        spending_cap: None,
        crash_recovery: None,
        coherence: CoherenceMonitorConfig::default(),
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

/// A project with agents 1 to `count`.
pub(crate) fn project_with_agents(count: u128) -> Project {
    let mut project = project(&["api"]);
    for n in 1..=count {
        now(|ctx| project.add_agent(agent_id(n), WorkstreamId::parse("api").unwrap(), ctx)).unwrap();
    }
    project
}

pub(crate) fn agent_id(n: u128) -> ProjectAgentId {
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
    for n in 0..100 {
        now(|ctx| project.add_agent(agent_id(n), id("api"), ctx)).unwrap();
    }
    let again = now(|ctx| project.add_agent(agent_id(3), id("api"), ctx));
    assert_eq!(again.unwrap(), [], "the agent is in the project already");
    let one_more = now(|ctx| project.add_agent(agent_id(1000), id("api"), ctx));
    assert_eq!(one_more.unwrap_err(), ProjectError::TooMany { what: "agents", max: 100 });
}

#[test]
fn parts_and_size_of_a_project_are_limited() {
    let changed = |change: &dyn Fn(&mut ProjectDefinition)| {
        let mut definition = definition(&["api"]);
        change(&mut definition);
        now(|ctx| project(&["api"]).update(definition, ctx))
    };
    let goals =
        |count: usize| (0..count).map(|n| Goal::parse(format!("Goal {n}")).unwrap()).collect::<Vec<_>>();
    let rules =
        |count: usize| (0..count).map(|n| BriefConstraint::parse(format!("Rule {n}")).unwrap()).collect();
    let streams = |count: usize| {
        let others = (1..count).map(|n| workstream(&format!("w{n}")));
        std::iter::once(workstream("api")).chain(others).collect::<Vec<_>>()
    };
    for (most, what, change) in [
        (
            50,
            "workstreams",
            &(|it: &mut ProjectDefinition, n| it.workstreams = streams(n)) as &dyn Fn(&mut _, usize),
        ),
        (50, "goals", &|it: &mut ProjectDefinition, n| it.brief.goals = goals(n)),
        (50, "constraints", &|it: &mut ProjectDefinition, n| it.brief.constraints = rules(n)),
        (20, "goals in a workstream", &|it: &mut ProjectDefinition, n| it.workstreams[0].goals = goals(n)),
    ] {
        assert!(changed(&|it| change(it, most)).is_ok(), "{most} {what}");
        let refused = changed(&|it| change(it, most + 1));
        assert_eq!(refused, Err(ProjectError::TooMany { what, max: most }));
    }
    let long = Goal::parse("x".repeat(Goal::MAX)).unwrap();
    let large = |it: &mut ProjectDefinition| {
        it.workstreams = streams(50);
        it.workstreams.iter_mut().for_each(|one| one.goals = vec![long.clone(); 20]);
    };
    assert_eq!(changed(&large), Err(ProjectError::TooLarge { max_kib: 256 }));
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
        ModePolicy {
            escalation: Some(strict.clone()),
            decision_timeout: Some(timeout),
            ..ModePolicy::default()
        },
    );
    now(|ctx| project.update(definition, ctx)).unwrap();
    assert_eq!(project.escalation(), EscalationProtocol::of_mode(ControlMode::Adaptive));
    let changed = now(|ctx| project.set_control_mode(ControlMode::Ecosystem, ctx)).unwrap();
    assert!(
        matches!(changed[..], [ProjectEvent::ControlModeChanged { from: ControlMode::Adaptive, revision, .. }] if revision.get() == 1)
    );
    assert_eq!(project.escalation(), strict);
    let ticks =
        TickClock::new(TickConfig::default()).unwrap().read_for(agent_id(1), Timestamp::from_millis(0));
    assert_eq!(project.timeout_terms(None, ticks).policy, timeout);
    let of_brief = DecisionTimeoutPolicy { on_timeout: OnTimeout::Extend, ..timeout };
    assert_eq!(project.timeout_terms(Some(of_brief), ticks).rule, TimeoutRule::Brief);
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
        "delegationPolicy": { "canSpawnSubagents": true, "allowedHandoffs": ["a", "a"], "maxDepth": 0 },
        "workspaceRequirements": { "mounts": [], "capabilities": [], "baseImage": " " },
        "secretRefs": [{ "name": "PATH", "vaultKey": "a" }],
        "sessionPolicy": { "historyPolicy": "full", "historyN": 3, "maxTurns": 0 },
    }));
    let mut fields: Vec<_> =
        brief.check(&project, &[]).unwrap_err().into_iter().map(|(field, _)| field).collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "allowedTools[1]",
            "delegationPolicy.allowedHandoffs[1]",
            "delegationPolicy.maxDepth",
            "escalationProtocol.alwaysEscalate[1]",
            "escalationProtocol.neverEscalate[1]",
            "providerConfig.allowedTools",
            "providerConfig.apiKey",
            "readableWorkstreams[1]",
            "readableWorkstreams[2]",
            "readableWorkstreams[3]",
            "secretRefs[0].name",
            "sessionPolicy.historyN",
            "sessionPolicy.maxTurns",
            "workspaceRequirements.baseImage",
            "workstream",
        ]
    );
}

fn spawned(trust: &TrustCalibrationProfile) -> ProjectAgent {
    spawned_at(trust, Tick::ZERO)
}

fn spawned_at(trust: &TrustCalibrationProfile, tick: Tick) -> ProjectAgent {
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
    now(|ctx| ProjectAgent::spawn(new, trust, tick, ctx)).0
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
fn standing_approvals_are_bounded_and_end_with_their_session() {
    let mut agent = spawned(&TrustCalibrationProfile::default());
    let mut mode = ControlModeSetting::new(ControlMode::Adaptive, Timestamp::from_millis(0));
    let approval = |n: usize| StandingApproval {
        decision_id: DecisionId::new(Uuid::from_u128(n as u128)),
        session_id: AgentSessionId::new(Uuid::from_u128(9)),
        tool: format!("tool-{n}"),
        effects: Effects::unclassified(),
        mode_revision: ModeRevision::default(),
    };
    assert_eq!(now(|ctx| agent.approve_always(approval(1), &mode, ctx)).len(), 1);
    assert_eq!(
        now(|ctx| agent.approve_always(approval(1), &mode, ctx)),
        [],
        "the same decision changes nothing"
    );
    for n in 2..=ProjectAgent::MAX_APPROVALS + 1 {
        now(|ctx| agent.approve_always(approval(n), &mode, ctx));
    }
    assert_eq!(agent.approvals().len(), ProjectAgent::MAX_APPROVALS);
    assert_eq!(agent.approvals()[0], approval(2), "the oldest lapsed");
    let repeated = StandingApproval { decision_id: DecisionId::new(Uuid::from_u128(500)), ..approval(3) };
    now(|ctx| agent.approve_always(repeated, &mode, ctx));
    assert_eq!(agent.approvals().len(), ProjectAgent::MAX_APPROVALS, "it replaces the one of the same tool");
    mode.change(ControlMode::Orchestrator, Timestamp::from_millis(1));
    let later = StandingApproval { mode_revision: mode.revision(), ..approval(600) };
    now(|ctx| agent.approve_always(later.clone(), &mode, ctx));
    assert_eq!(agent.approvals(), [later], "a stricter mode ended the others");
    now(|ctx| agent.continue_in(AgentSessionId::new(Uuid::from_u128(77)), ctx));
    assert_eq!(agent.approvals(), []);
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

#[test]
fn prompt_contains_description_and_checkpoints_of_the_project() {
    let mut described = definition(&["api"]);
    described.brief.description = Some(ProjectDescription::parse("A shop for tea.").unwrap());
    described.brief.checkpoints =
        ["First order", "First return"].map(|it| Checkpoint::parse(it).unwrap()).into();
    let mut project = project(&["api"]);
    now(|ctx| project.update(described, ctx)).unwrap();
    let prompt = brief_prompt(&project, &spawned(&TrustCalibrationProfile::default()));
    for expected in ["A shop for tea.", "Checkpoints, in order:\n\n- First order\n- First return\n"] {
        assert!(prompt.contains(expected), "{expected} is missing in:\n{prompt}");
    }
}

fn approved() -> ReportedOutcome {
    ReportedOutcome::new(TrustOutcome::HumanApprovesToolCall)
}

fn recorded(agent: &mut ProjectAgent, tick: u64, trust: &TrustCalibrationProfile) -> Vec<ProjectAgentEvent> {
    let cause = (agent.current_session_id(), EventId::new(Uuid::from_u128(11)));
    now(|ctx| agent.record_outcome(approved(), cause, (Tick::new(tick), trust), ctx))
}

fn score(agent: &ProjectAgent, tick: u64, trust: &TrustCalibrationProfile) -> String {
    agent.trust().score(Tick::new(tick), trust).to_string()
}

#[test]
fn outcome_is_journaled_with_its_cause() {
    let trust = TrustCalibrationProfile::default();
    let mut agent = spawned(&trust);
    let events = recorded(&mut agent, 5, &trust);
    let [ProjectAgentEvent::TrustChanged { entry, session_id, caused_by }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((entry.outcome, entry.tick), (TrustOutcome::HumanApprovesToolCall, Tick::new(5)));
    assert_eq!((*session_id, caused_by.uuid()), (agent.current_session_id(), Uuid::from_u128(11)));
    assert_eq!(score(&agent, 5, &trust), "51");
}

#[test]
fn changed_configuration_settles_the_decay_until_then() {
    let old = TrustCalibrationProfile::preset(TrustProfileName::Permissive);
    let new = TrustCalibrationProfile::preset(TrustProfileName::Conservative);
    let mut agent = spawned(&old);
    // 70 falls by 0.005 for each of 1,000 ticks, then by 0.02 for each of 100.
    let configured = now(|ctx| agent.configure_trust(&new, Tick::new(1000), ctx));
    let [ProjectAgentEvent::TrustConfigured { tick, .. }] = &configured[..] else { panic!("{configured:?}") };
    assert_eq!(*tick, Tick::new(1000));
    assert_eq!((score(&agent, 1000, &new), score(&agent, 1100, &new)), ("65".to_owned(), "63".to_owned()));
    assert_eq!(now(|ctx| agent.configure_trust(&new, Tick::new(2000), ctx)), [], "a repetition");
}

#[test]
fn outcome_before_the_new_configuration_arrives_takes_it_over() {
    let old = TrustCalibrationProfile::preset(TrustProfileName::Permissive);
    let new = TrustCalibrationProfile::preset(TrustProfileName::Conservative);
    let mut agent = spawned(&old);
    let events = recorded(&mut agent, 1000, &new);
    assert!(matches!(events[0], ProjectAgentEvent::TrustConfigured { .. }), "{events:?}");
    assert_eq!(score(&agent, 1000, &new), "65.75", "0.75 points at the profile's multiplier");
    assert_eq!(now(|ctx| agent.configure_trust(&new, Tick::new(1000), ctx)), []);
}

#[test]
fn trust_of_a_late_agent_does_not_decay_from_the_first_tick() {
    let trust = TrustCalibrationProfile::preset(TrustProfileName::Conservative);
    let agent = spawned_at(&trust, Tick::new(5000));
    assert_eq!((score(&agent, 5000, &trust), agent.started_at_tick()), ("30".to_owned(), Tick::new(5000)));
}

#[test]
fn ticks_and_trust_of_a_project_are_checked() {
    let mut changed = definition(&["api"]);
    changed.tick_config.interval_ms = 1;
    let refused = |definition| now(|ctx| project(&["api"]).update(definition, ctx)).unwrap_err();
    assert_eq!(refused(changed.clone()).code(), "validation-failed");
    changed.tick_config = TickConfig::default();
    changed.trust.config.decay_rate_per_tick = "-1".parse().unwrap();
    changed.trust.config.decay_ceiling = "101".parse().unwrap();
    let error = refused(changed).to_string();
    assert!(error.contains("decayRatePerTick") && error.contains("decayCeiling"), "{error}");
}
