//! The configuration that template, skills and session make together (S0 design note "Skill composition semantics", decision 38).

use pilothouse_domain::AgentSkillId;
use pilothouse_domain::composition::{
    Composition, HANDOFF_INSTRUCTION, SkillPart, TemplatePart, compose, compose_within_limit,
    consolidation_prompt,
};
use pilothouse_domain::value::{ContextPolicy, McpToolDefinition, ServerUri, SkillSubAgentDefinition};
use proptest::prelude::*;
use uuid::Uuid;

use super::skills::{SkillScenario, sub_agent, tool};

fn at(tool: McpToolDefinition, server: &str) -> McpToolDefinition {
    McpToolDefinition { server_uri: ServerUri::parse(server).unwrap(), ..tool }
}

fn skill<'a>(
    n: u128,
    name: &'a str,
    instructions: &'a str,
    tools: &'a [McpToolDefinition],
    sub_agents: &'a [SkillSubAgentDefinition],
) -> SkillPart<'a> {
    SkillPart { id: AgentSkillId::new(Uuid::from_u128(n)), name, instructions, tools, sub_agents }
}

fn places(composition: &Composition, parts: &[&str]) {
    let places: Vec<_> = parts.iter().map(|part| composition.system_prompt.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "{parts:?} are in another order: {places:?}");
}

#[test]
fn prompt_ends_with_handoff_instruction_under_handoff() {
    let bare = compose(None, &[], &[], ContextPolicy::Handoff);
    assert_eq!(bare.system_prompt, HANDOFF_INSTRUCTION);
    assert!(bare.allowed_tools.is_empty() && bare.custom_tools.is_empty() && bare.sub_agents.is_empty());
    let template = TemplatePart { system_prompt: Some("  "), ..TemplatePart::default() };
    assert_eq!(compose(Some(template), &[], &[], ContextPolicy::Handoff).system_prompt, HANDOFF_INSTRUCTION);
}

#[test]
fn compacting_agent_gets_no_handoff_instruction() {
    let template = TemplatePart { system_prompt: Some("You are careful."), ..TemplatePart::default() };
    let skills = [skill(1, "first", "Do A.", &[], &[])];
    let composed = compose(Some(template), &skills, &[], ContextPolicy::Compact);
    places(&composed, &["You are careful.", "# Skill: first", "Do A."]);
    assert!(!composed.system_prompt.contains("handoff_document"), "{}", composed.system_prompt);
    let handing_over = compose(Some(template), &skills, &[], ContextPolicy::Handoff);
    assert_eq!(handing_over.system_prompt, format!("{}\n\n{HANDOFF_INSTRUCTION}", composed.system_prompt));
}

#[test]
fn template_precedes_the_skills_in_order() {
    let template = TemplatePart { system_prompt: Some("You are careful."), ..TemplatePart::default() };
    let skills = [skill(2, "second", "Do B.", &[], &[]), skill(1, "first", "", &[], &[])];
    let composed = compose(Some(template), &skills, &[], ContextPolicy::Handoff);
    places(
        &composed,
        &["You are careful.", "# Skill: second", "Do B.", "# Skill: first", HANDOFF_INSTRUCTION],
    );
    // The agent records memory pills under the skill's id.
    assert!(composed.system_prompt.contains(&skills[1].id.to_string()));
}

#[test]
fn first_of_two_duplicate_names_wins() {
    let of_template = [at(tool("search"), "https://template/")];
    let of_first = [at(tool("search"), "https://first/"), at(tool("build"), "https://first/")];
    let of_second = [at(tool("build"), "https://second/"), at(tool("lint"), "https://second/")];
    let (runner, other) =
        ([sub_agent("runner", &["a"])], [sub_agent("runner", &[]), sub_agent("judge", &[])]);
    let skills = [skill(1, "first", "", &of_first, &runner), skill(2, "second", "", &of_second, &other)];
    let allowed = ["Read".to_owned(), "build".to_owned()];
    let template =
        TemplatePart { allowed_tools: &allowed, custom_tools: &of_template, ..TemplatePart::default() };
    let composed =
        compose(Some(template), &skills, &["Read".to_owned(), "Bash".to_owned()], ContextPolicy::Handoff);
    let tools: Vec<_> =
        composed.custom_tools.iter().map(|t| (t.name.as_str(), t.server_uri.as_str())).collect();
    assert_eq!(
        tools,
        [("search", "https://template/"), ("build", "https://first/"), ("lint", "https://second/")]
    );
    assert_eq!(composed.allowed_tools, ["Read", "build", "Bash", "search", "lint"]);
    assert_eq!(composed.sub_agents, [runner[0].clone(), other[1].clone()]);
}

#[test]
fn adapter_keeps_its_own_tools_when_none_are_named() {
    let tools = [tool("search")];
    let composed = compose(None, &[skill(1, "s", "", &tools, &[])], &[], ContextPolicy::Handoff);
    assert!(composed.allowed_tools.is_empty());
    assert_eq!(composed.custom_tools, tools);
}

#[test]
fn oversized_parts_are_omitted_and_named() {
    let large = "x".repeat(60 * 1024);
    let skills = [
        skill(1, "first", &large, &[], &[]),
        skill(2, "second", &large, &[], &[]),
        skill(3, "third", &large, &[], &[]),
        skill(4, "fourth", "small", &[], &[]),
    ];
    let (composed, left_out) = compose_within_limit(None, &skills, &[], ContextPolicy::Handoff);
    assert_eq!(left_out, [skills[2]]);
    assert!(composed.bytes() <= Composition::MAX_BYTES + 1024);
    assert!(composed.system_prompt.contains("The skill third could not be loaded"));
    places(&composed, &["# Skill: first", "# Skill: second", "# Skill: fourth"]);
    let (composed, left_out) = compose_within_limit(None, &skills[..2], &[], ContextPolicy::Handoff);
    assert!(left_out.is_empty());
    assert_eq!(composed, compose(None, &skills[..2], &[], ContextPolicy::Handoff));
}

/// The consolidation prompt of the largest possible skill fits into a command.
#[test]
fn full_skill_fits_into_a_command() {
    let heavy = "\u{1}".repeat(2000);
    let mut scenario = SkillScenario::created();
    while scenario.last.is_ok() {
        scenario = scenario.learns(&heavy);
    }
    let prompt = consolidation_prompt(&scenario.skill, scenario.skill.active_pills());
    let template = TemplatePart { system_prompt: Some(&prompt), ..TemplatePart::default() };
    assert!(compose(Some(template), &[], &[], ContextPolicy::Handoff).bytes() <= Composition::MAX_BYTES);
}

#[test]
fn a_consolidation_gets_the_instructions_and_the_pills() {
    let scenario = SkillScenario::with_pills(2);
    let prompt = consolidation_prompt(&scenario.skill, scenario.skill.active_pills());
    for part in ["Skill Improvement", "Test first.", "lesson 0", "lesson 1"] {
        assert!(prompt.contains(part), "{part}");
    }
    for id in scenario.pills() {
        assert!(prompt.contains(&id.to_string()));
    }
    assert!(prompt.contains(&format!("/api/agent/skills/{}/consolidation", scenario.skill.id())));
}

proptest! {
    /// The union by name has no duplicates, loses nothing, and keeps the first of each name.
    #[test]
    fn merged_names_are_unique_and_the_first_wins(
        template in prop::collection::vec(0..6_u8, 0..6),
        skills in prop::collection::vec(prop::collection::vec(0..6_u8, 0..6), 0..5),
        session in prop::collection::vec(0..9_u8, 0..4),
    ) {
        let make = |owner: usize, names: &[u8]| -> Vec<_> {
            names.iter().map(|n| at(tool(&format!("t{n}")), &format!("https://owner-{owner}/"))).collect()
        };
        let of_template = make(0, &template);
        let of_skills: Vec<_> = skills.iter().enumerate().map(|(i, names)| make(i + 1, names)).collect();
        let parts: Vec<_> = of_skills.iter().map(|tools| skill(1, "s", "", tools, &[])).collect();
        let session: Vec<_> = session.iter().map(|n| format!("t{n}")).collect();
        let template = TemplatePart { custom_tools: &of_template, ..TemplatePart::default() };
        let composed = compose(Some(template), &parts, &session, ContextPolicy::Handoff);
        let all: Vec<_> = of_template.iter().chain(of_skills.iter().flatten()).collect();
        for tool in &composed.custom_tools {
            prop_assert_eq!(Some(tool), all.iter().find(|t| t.name == tool.name).copied());
            prop_assert_eq!(composed.custom_tools.iter().filter(|t| t.name == tool.name).count(), 1);
            prop_assert!(session.is_empty() || composed.allowed_tools.contains(&tool.name.as_str().to_owned()));
        }
        for tool in all {
            prop_assert!(composed.custom_tools.iter().any(|t| t.name == tool.name));
        }
        prop_assert_eq!(composed.allowed_tools.is_empty(), session.is_empty());
    }
}
