//! Random operations on a skill: the invariants of S0 8.4 hold after each step.

use std::collections::BTreeMap;

use pilothouse_domain::skill::{MemoryPillCategory, MemoryPillStatus};
use pilothouse_domain::text::MemoryPillContent;
use pilothouse_domain::{AgentSkill, MemoryPillId};
use proptest::prelude::*;

use crate::scenarios::skills::{SkillScenario, instructions, session, sub_agent, tool};

#[derive(Debug, Clone)]
enum Step {
    Learn(u16),
    Dismiss(u8),
    Consolidate(Vec<u8>),
    Start(u8),
    Propose(u8, Vec<u8>),
    Finish(u8),
    Abandon(u8),
    Instruct(u8),
    AddTool(u8),
    RemoveTool(u8),
    AddSubAgent(u8),
    Activate(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(0..12_u8, 0..4);
    prop_oneof![
        5 => (1..900_u16).prop_map(Step::Learn),
        2 => (0..12_u8).prop_map(Step::Dismiss),
        1 => some().prop_map(Step::Consolidate),
        2 => (0..2_u8).prop_map(Step::Start),
        3 => ((0..2_u8), some()).prop_map(|(s, p)| Step::Propose(s, p)),
        1 => (0..2_u8).prop_map(Step::Finish),
        1 => (0..2_u8).prop_map(Step::Abandon),
        1 => (0..4_u8).prop_map(Step::Instruct),
        1 => (0..70_u8).prop_map(Step::AddTool),
        1 => (0..70_u8).prop_map(Step::RemoveTool),
        1 => (0..4_u8).prop_map(Step::AddSubAgent),
        1 => any::<bool>().prop_map(Step::Activate),
    ]
}

/// Every pill that was recorded, with its last known status.
type Seen = BTreeMap<MemoryPillId, MemoryPillStatus>;

fn take(scenario: SkillScenario, seen: &Seen, step: Step) -> SkillScenario {
    let known: Vec<_> = seen.keys().copied().collect();
    let pick = |n: u8| known.get(usize::from(n) % known.len().max(1)).copied();
    let picked = |ns: Vec<u8>| -> Vec<_> { ns.into_iter().filter_map(pick).collect() };
    match step {
        Step::Learn(n) => scenario.when(|s, ctx| {
            let content = MemoryPillContent::parse("\u{1}".repeat(n.into())).unwrap();
            Ok(s.record_memory_pill(session(1), content, MemoryPillCategory::Tip, ctx)?.1)
        }),
        Step::Dismiss(n) => match pick(n) {
            Some(id) => scenario.when(|s, ctx| s.dismiss_memory_pill(id, ctx)),
            None => scenario,
        },
        Step::Consolidate(ns) => {
            let ids = picked(ns);
            scenario.when(|s, ctx| s.consolidate_memory_pills(&ids, instructions("by hand"), ctx))
        }
        Step::Start(n) => scenario.when(|s, ctx| s.start_consolidation(session(n.into()), ctx)),
        Step::Propose(n, ns) => {
            let (ids, text) = (picked(ns), instructions(&"x".repeat(20_000)));
            scenario.when(|s, ctx| s.propose_consolidation(session(n.into()), ids, text, ctx))
        }
        Step::Finish(n) => scenario.when(|s, ctx| s.finish_consolidation(session(n.into()), ctx)),
        Step::Abandon(n) => {
            scenario.when(|s, ctx| Ok(s.abandon_consolidation(session(n.into()), "over", ctx)))
        }
        Step::Instruct(n) => {
            scenario.when(|s, ctx| s.update_instructions(instructions(&"i".repeat(n.into())), false, ctx))
        }
        Step::AddTool(n) => scenario.when(|s, ctx| s.add_tool_definition(tool(&format!("t{n}")), ctx)),
        Step::RemoveTool(n) => scenario.when(|s, ctx| s.remove_tool_definition(&format!("t{n}"), ctx)),
        Step::AddSubAgent(n) => {
            scenario.when(|s, ctx| s.add_sub_agent_definition(sub_agent(&format!("a{n}"), &["t"]), ctx))
        }
        Step::Activate(on) => {
            scenario.when(|s, ctx| Ok(if on { s.activate(ctx) } else { s.deactivate(ctx) }))
        }
    }
}

fn invariants(before: &AgentSkill, scenario: &SkillScenario, seen: &mut Seen) {
    let skill = &scenario.skill;
    let consolidated = scenario.last.as_ref().is_ok_and(|events| events.contains(&"SkillConsolidatedEvent"));
    assert_eq!(
        skill.version(),
        before.version() + u32::from(consolidated),
        "the version changed without a consolidation"
    );
    assert!(skill.active_pills().len() <= AgentSkill::MAX_ACTIVE_PILLS);
    assert!(serde_json::to_vec(skill).unwrap().len() <= AgentSkill::MAX_BYTES);
    assert!(skill.active_pills().iter().all(|pill| pill.status == MemoryPillStatus::Active));

    // A pill is in one place, and a final status does not change.
    let mut now = Seen::new();
    for pill in skill.active_pills().iter().chain(skill.settled_pills()) {
        assert!(now.insert(pill.id, pill.status).is_none(), "a pill is listed twice");
        assert_eq!(pill.consolidated_at.is_some(), pill.status == MemoryPillStatus::Consolidated);
    }
    for (id, status) in seen.iter() {
        let after = now.get(id).expect("a pill is lost");
        assert!(status == after || *status == MemoryPillStatus::Active, "{status:?} became {after:?}");
    }
    *seen = now;

    let names: Vec<_> = skill.tool_definitions().iter().map(|t| t.name.as_str()).collect();
    assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)));
    if let Some(consolidation) = skill.consolidation()
        && let Some(proposal) = &consolidation.proposal
    {
        assert!(!proposal.pill_ids.is_empty());
        assert!(proposal.pill_ids.iter().all(|id| consolidation.pill_ids.contains(id)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_skill_histories_keep_the_invariants(steps in prop::collection::vec(step(), 1..60)) {
        let (mut scenario, mut seen) = (SkillScenario::created(), Seen::new());
        for step in steps {
            let before = scenario.skill.clone();
            scenario = take(scenario, &seen, step);
            invariants(&before, &scenario, &mut seen);
        }
        // A consolidation in progress can be ended.
        if let Some(session) = scenario.skill.consolidation().map(|c| c.session_id) {
            let scenario = scenario.when(|s, ctx| s.finish_consolidation(session, ctx));
            prop_assert!(scenario.last.is_ok() && scenario.skill.consolidation().is_none());
        }
    }
}
