//! Operations on skills and their results (S0 8.4 `AgentSkill`, `MemoryPill`).

use pilothouse_domain::skill::{MemoryPillCategory as Category, MemoryPillStatus, NewSkill, SkillError};
use pilothouse_domain::text::{MemoryPillContent, SkillDescription, SkillInstructions, SkillName};
use pilothouse_domain::value::{McpToolDefinition, SkillSubAgentDefinition};
use pilothouse_domain::{
    AgentSessionId, AgentSkill, AgentSkillId, Deadlines, DomainContext, MemoryPillId, SkillEvent, Timestamp,
    UserId,
};
use serde_json::{from_value, json};
use uuid::Uuid;

use crate::scenario::Ids;

pub(crate) fn session(n: u128) -> AgentSessionId {
    AgentSessionId::new(Uuid::from_u128(7_000_000 + n))
}

pub(crate) fn tool(name: &str) -> McpToolDefinition {
    from_value(json!({
        "name": name,
        "description": "Does it",
        "inputSchema": r#"{"type":"object"}"#,
        "serverUri": "https://tools.example.com/mcp",
    }))
    .unwrap()
}

pub(crate) fn sub_agent(name: &str, tools: &[&str]) -> SkillSubAgentDefinition {
    let tools: Vec<_> = tools.iter().map(|name| tool(name)).collect();
    from_value(json!({
        "name": name, "description": "Runs it", "modelId": "m", "instructions": "", "toolDefinitions": tools,
    }))
    .unwrap()
}

pub(crate) fn instructions(s: &str) -> SkillInstructions {
    SkillInstructions::parse(s).unwrap()
}

fn new_skill() -> NewSkill {
    NewSkill {
        id: AgentSkillId::new(Uuid::from_u128(1)),
        owner_id: UserId::parse("owner").unwrap(),
        name: SkillName::parse("testing").unwrap(),
        description: SkillDescription::parse("How we test").unwrap(),
        instructions: instructions("Test first."),
        tool_definitions: vec![tool("run_tests")],
        sub_agent_definitions: vec![],
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SkillScenario {
    pub(crate) skill: AgentSkill,
    pub(crate) now: Timestamp,
    pub(crate) ids: Ids,
    pub(crate) last: Result<Vec<&'static str>, &'static str>,
}

impl SkillScenario {
    pub(crate) fn created() -> Self {
        let (now, mut ids) = (Timestamp::from_millis(1_000), Ids(100));
        let ctx = DomainContext::new(now, Deadlines::default(), &mut ids);
        let (skill, events) = AgentSkill::create(new_skill(), &ctx).unwrap();
        assert_eq!(names(&events), ["AgentSkillCreatedEvent"]);
        Self { skill, now, ids, last: Ok(vec![]) }
    }

    pub(crate) fn with_pills(n: usize) -> Self {
        (0..n).fold(Self::created(), |scenario, i| {
            scenario.learns(&format!("lesson {i}")).then(&["MemoryPillRecordedEvent"])
        })
    }

    /// One commit. A refusal, or a change without events, must have changed nothing.
    pub(crate) fn when(
        mut self,
        what: impl FnOnce(&mut AgentSkill, &mut DomainContext<'_>) -> Result<Vec<SkillEvent>, SkillError>,
    ) -> Self {
        self.now = self.now + std::time::Duration::from_secs(1);
        let mut ctx = DomainContext::new(self.now, Deadlines::default(), &mut self.ids);
        let before = self.skill.clone();
        let done = what(&mut self.skill, &mut ctx);
        self.last = match &done {
            Ok(events) => Ok(names(events)),
            Err(refusal) => Err(refusal.code()),
        };
        if done.is_err() || self.last.as_deref() == Ok(&[]) {
            assert_eq!(self.skill, before, "{:?} changed something", self.last);
        } else {
            assert_eq!(self.skill.updated_at(), self.now);
        }
        self
    }

    pub(crate) fn learns(self, what: &str) -> Self {
        let content = MemoryPillContent::parse(what).unwrap();
        self.when(|s, ctx| Ok(s.record_memory_pill(session(1), content, Category::Tip, ctx)?.1))
    }

    #[track_caller]
    pub(crate) fn then(self, events: &[&str]) -> Self {
        assert_eq!(self.last.as_deref(), Ok(events));
        self
    }

    #[track_caller]
    pub(crate) fn refused(self, code: &str) -> Self {
        assert_eq!(self.last, Err(code));
        self
    }

    pub(crate) fn pill(&self, at: usize) -> MemoryPillId {
        self.skill.active_pills()[at].id
    }

    pub(crate) fn pills(&self) -> Vec<MemoryPillId> {
        self.skill.active_pills().iter().map(|pill| pill.id).collect()
    }
}

fn names(events: &[SkillEvent]) -> Vec<&'static str> {
    events.iter().map(SkillEvent::name).collect()
}

#[test]
fn new_skill_is_active_at_version_1() {
    let skill = SkillScenario::created().skill;
    assert!(skill.is_active() && skill.version() == 1 && skill.active_pills().is_empty());
}

#[test]
fn tool_and_subagent_names_are_unique_within_the_skill() {
    let mut new = new_skill();
    new.tool_definitions.push(tool("run_tests"));
    let mut ids = Ids(1);
    let ctx = DomainContext::new(Timestamp::from_millis(0), Deadlines::default(), &mut ids);
    assert_eq!(AgentSkill::create(new, &ctx).unwrap_err().code(), "name-taken");
    let mut new = new_skill();
    new.sub_agent_definitions = vec![sub_agent("runner", &["a"]), sub_agent("runner", &["b"])];
    assert_eq!(AgentSkill::create(new, &ctx).unwrap_err().code(), "name-taken");

    let mut other = tool("run_tests");
    other.description = tool("x").description;
    other.server_uri = pilothouse_domain::value::ServerUri::parse("https://other.example.com/").unwrap();
    SkillScenario::created()
        .when(|s, ctx| s.add_tool_definition(tool("lint"), ctx))
        .then(&["AgentSkillUpdatedEvent"])
        // Adding the same definition again changes nothing.
        .when(|s, ctx| s.add_tool_definition(tool("lint"), ctx))
        .then(&[])
        .when(|s, ctx| s.add_tool_definition(other, ctx))
        .refused("name-taken")
        .when(|s, ctx| s.remove_tool_definition("lint", ctx))
        .then(&["AgentSkillUpdatedEvent"])
        .when(|s, ctx| s.remove_tool_definition("lint", ctx))
        .refused("not-found")
        .when(|s, ctx| s.add_sub_agent_definition(sub_agent("runner", &["a", "b"]), ctx))
        .then(&["AgentSkillUpdatedEvent"])
        .when(|s, ctx| s.add_sub_agent_definition(sub_agent("runner", &["a"]), ctx))
        .refused("name-taken")
        .when(|s, ctx| s.add_sub_agent_definition(sub_agent("other", &["a", "a"]), ctx))
        .refused("name-taken")
        .when(|s, ctx| s.remove_sub_agent_definition("runner", ctx))
        .then(&["AgentSkillUpdatedEvent"])
        .when(|s, ctx| s.remove_sub_agent_definition("runner", ctx))
        .refused("not-found");
}

#[test]
fn only_consolidation_increments_the_version() {
    let scenario = SkillScenario::with_pills(2)
        .when(|s, ctx| s.update_instructions(instructions("Test much."), false, ctx))
        .then(&["AgentSkillInstructionsUpdatedEvent"])
        .when(|s, ctx| s.update_instructions(instructions("Test much."), false, ctx))
        .then(&[])
        .when(|s, ctx| s.update(Some(SkillName::parse("tests").unwrap()), None, ctx))
        .then(&["AgentSkillUpdatedEvent"])
        .when(|s, ctx| s.update(None, None, ctx))
        .then(&[]);
    assert_eq!(scenario.skill.version(), 1);
    let pills = scenario.pills();
    let scenario = scenario
        .when(|s, ctx| s.consolidate_memory_pills(&pills[..1], instructions("Both."), ctx))
        .then(&["AgentSkillInstructionsUpdatedEvent", "SkillConsolidatedEvent"]);
    assert_eq!((scenario.skill.version(), scenario.skill.instructions().as_str()), (2, "Both."));
    assert_eq!(scenario.pills(), pills[1..]);
    let settled = &scenario.skill.settled_pills()[0];
    assert_eq!((settled.id, settled.status), (pills[0], MemoryPillStatus::Consolidated));
    assert_eq!(settled.consolidated_at, Some(scenario.now));
    // A consolidation with the same instructions counts as well, because it contains another pill.
    let scenario =
        scenario.when(|s, ctx| s.consolidate_memory_pills(&pills[1..], instructions("Both."), ctx));
    assert_eq!(scenario.skill.version(), 3);
    let (mut skill, mut ids) = (scenario.skill, scenario.ids);
    let ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut ids);
    for (increment_version, new_version) in [(false, 3), (true, 4)] {
        let events = skill.update_instructions(instructions("More."), increment_version, &ctx).unwrap();
        assert_eq!(events, [SkillEvent::InstructionsUpdated { new_version }]);
    }
}

#[test]
fn only_active_pills_are_consolidated_or_dismissed() {
    let scenario = SkillScenario::with_pills(3);
    let [first, second, third] = [scenario.pill(0), scenario.pill(1), scenario.pill(2)];
    let scenario = scenario
        .when(|s, ctx| s.dismiss_memory_pill(first, ctx))
        .then(&["MemoryPillDismissedEvent"])
        .when(|s, ctx| s.dismiss_memory_pill(first, ctx))
        .refused("pill-not-active")
        .when(|s, ctx| s.consolidate_memory_pills(&[first, second], instructions("x"), ctx))
        .refused("pill-not-active")
        .when(|s, ctx| s.consolidate_memory_pills(&[], instructions("x"), ctx))
        .refused("nothing-to-consolidate")
        // A pill that is named twice counts once.
        .when(|s, ctx| s.consolidate_memory_pills(&[second, second], instructions("x"), ctx))
        .then(&["AgentSkillInstructionsUpdatedEvent", "SkillConsolidatedEvent"])
        .when(|s, ctx| s.dismiss_memory_pill(second, ctx))
        .refused("pill-not-active")
        .when(|s, ctx| s.consolidate_memory_pills(&[second], instructions("y"), ctx))
        .refused("pill-not-active");
    assert_eq!(scenario.pills(), [third]);
    let settled: Vec<_> = scenario.skill.settled_pills().iter().map(|p| (p.id, p.status)).collect();
    assert_eq!(settled, [(first, MemoryPillStatus::Dismissed), (second, MemoryPillStatus::Consolidated)]);
    let (mut skill, mut ids) = (scenario.skill, scenario.ids);
    let ctx = DomainContext::new(scenario.now, Deadlines::default(), &mut ids);
    let dismissed = skill.dismiss_memory_pill(third, &ctx).unwrap();
    assert_eq!(dismissed, [SkillEvent::MemoryPillDismissed { pill_id: third }]);
}

#[test]
fn activation_is_idempotent() {
    SkillScenario::created()
        .when(|s, ctx| Ok(s.activate(ctx)))
        .then(&[])
        .when(|s, ctx| Ok(s.deactivate(ctx)))
        .then(&["AgentSkillDeactivatedEvent"])
        .when(|s, ctx| Ok(s.deactivate(ctx)))
        .then(&[])
        // Agents of sessions that use the skill can still record pills.
        .learns("something")
        .then(&["MemoryPillRecordedEvent"])
        .when(|s, ctx| Ok(s.activate(ctx)))
        .then(&["AgentSkillActivatedEvent"]);
}

#[test]
fn pill_count_and_skill_size_are_bounded() {
    let scenario =
        SkillScenario::with_pills(AgentSkill::MAX_ACTIVE_PILLS).learns("one more").refused("too-many-pills");
    let first = scenario.pill(0);
    scenario
        .when(|s, ctx| s.dismiss_memory_pill(first, ctx))
        .learns("one more")
        .then(&["MemoryPillRecordedEvent"]);

    // Characters that JSON escapes take six bytes each.
    let heavy = "\u{1}".repeat(MemoryPillContent::MAX);
    let scenario = (0..10)
        .fold(SkillScenario::created(), |scenario, _| scenario.learns(&heavy))
        .then(&["MemoryPillRecordedEvent"]);
    let scenario = scenario.learns(&heavy).refused("skill-full");
    assert!(serde_json::to_vec(&scenario.skill).unwrap().len() <= AgentSkill::MAX_BYTES);
}

#[test]
fn agent_proposes_a_consolidation_that_its_end_applies() {
    let scenario = SkillScenario::with_pills(3);
    let pills = scenario.pills();
    let scenario = scenario
        .when(|s, ctx| s.start_consolidation(session(9), ctx))
        .then(&["SkillConsolidationStartedEvent"])
        .when(|s, ctx| s.start_consolidation(session(10), ctx))
        .refused("consolidation-under-way")
        .when(|s, ctx| s.update_instructions(instructions("mine"), false, ctx))
        .refused("consolidation-under-way")
        .learns("meanwhile")
        .then(&["MemoryPillRecordedEvent"]);
    let late = scenario.pill(3);
    let propose = |ids: Vec<_>, text: &str| {
        let text = instructions(text);
        move |s: &mut AgentSkill, ctx: &mut DomainContext<'_>| {
            s.propose_consolidation(session(9), ids, text, ctx)
        }
    };
    let scenario = scenario
        .when(|s, ctx| s.propose_consolidation(session(8), pills.clone(), instructions("x"), ctx))
        .refused("not-consolidating")
        .when(propose(vec![], "x"))
        .refused("nothing-to-consolidate")
        // The session did not receive this pill.
        .when(propose(vec![pills[0], late], "x"))
        .refused("pill-not-active")
        .when(propose(pills.clone(), "draft"))
        .then(&["SkillConsolidationProposedEvent"])
        .when(propose(pills.clone(), "draft"))
        .then(&[])
        .when(propose(pills[..2].to_vec(), "final"))
        .then(&["SkillConsolidationProposedEvent"]);
    assert_eq!((scenario.skill.version(), scenario.skill.instructions().as_str()), (1, "Test first."));
    let scenario = scenario
        .when(|s, ctx| s.dismiss_memory_pill(pills[1], ctx))
        .then(&["MemoryPillDismissedEvent"])
        .when(|s, ctx| s.finish_consolidation(session(8), ctx))
        .then(&[])
        .when(|s, ctx| s.finish_consolidation(session(9), ctx))
        .then(&["AgentSkillInstructionsUpdatedEvent", "SkillConsolidatedEvent"])
        // Delivery is at least once: the second time changes nothing.
        .when(|s, ctx| s.finish_consolidation(session(9), ctx))
        .then(&[]);
    assert_eq!((scenario.skill.version(), scenario.skill.instructions().as_str()), (2, "final"));
    assert_eq!(scenario.pills(), [pills[2], late]);
    assert!(scenario.skill.consolidation().is_none());
}

#[test]
fn consolidation_without_result_changes_nothing() {
    let scenario = SkillScenario::created()
        .when(|s, ctx| s.start_consolidation(session(9), ctx))
        .refused("nothing-to-consolidate")
        .learns("a")
        .when(|s, ctx| s.start_consolidation(session(9), ctx))
        .when(|s, ctx| s.finish_consolidation(session(9), ctx))
        .then(&["SkillConsolidationAbandonedEvent"])
        .when(|s, ctx| s.start_consolidation(session(10), ctx))
        .when(|s, ctx| Ok(s.abandon_consolidation(session(9), "late word of the first", ctx)))
        .then(&[])
        .when(|s, ctx| Ok(s.abandon_consolidation(session(10), "cancelled", ctx)))
        .then(&["SkillConsolidationAbandonedEvent"]);
    let pills = scenario.pills();
    // All its pills are dismissed, so there is nothing to apply.
    let scenario = scenario
        .when(|s, ctx| s.start_consolidation(session(11), ctx))
        .when(|s, ctx| s.propose_consolidation(session(11), pills.clone(), instructions("x"), ctx))
        .when(|s, ctx| s.dismiss_memory_pill(pills[0], ctx))
        .when(|s, ctx| s.finish_consolidation(session(11), ctx))
        .then(&["SkillConsolidationAbandonedEvent"]);
    assert_eq!((scenario.skill.version(), scenario.skill.instructions().as_str()), (1, "Test first."));
}

#[test]
fn events_of_pills_name_the_pill_and_count_the_merged_ones() {
    let SkillScenario { mut skill, now, mut ids, .. } = SkillScenario::created();
    let mut ctx = DomainContext::new(now, Deadlines::default(), &mut ids);
    let content = MemoryPillContent::parse("lesson").unwrap();
    let (pill_id, events) =
        skill.record_memory_pill(session(1), content, Category::Mistake, &mut ctx).unwrap();
    let recorded = SkillEvent::MemoryPillRecorded {
        skill_id: skill.id(),
        pill_id,
        session_id: session(1),
        category: Category::Mistake,
    };
    assert_eq!(events, [recorded]);
    let events = skill.consolidate_memory_pills(&[pill_id, pill_id], instructions("Both."), &ctx).unwrap();
    let merged = SkillEvent::Consolidated { new_version: 2, consolidated_pill_count: 1 };
    assert_eq!(events, [SkillEvent::InstructionsUpdated { new_version: 2 }, merged]);
}

#[test]
fn settled_pills_are_not_stored_with_the_skill() {
    let scenario = SkillScenario::with_pills(1);
    let pill = scenario.pill(0);
    let scenario = scenario.when(|s, ctx| s.dismiss_memory_pill(pill, ctx));
    let back: AgentSkill = serde_json::from_slice(&serde_json::to_vec(&scenario.skill).unwrap()).unwrap();
    assert!(back.settled_pills().is_empty() && back.active_pills().is_empty());
}
