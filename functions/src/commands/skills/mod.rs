//! Commands on skills: instructions, tools, subagents and memory pills (S0 8.4 `AgentSkill`, 8.9).

pub mod activate;
pub mod add_sub_agent;
pub mod add_tool;
pub mod consolidate;
pub mod create;
pub mod deactivate;
pub mod definitions;
pub mod dismiss_pill;
pub mod remove_sub_agent;
pub mod remove_tool;
pub mod update;

use http::StatusCode;
use pilothouse_api::skills::SkillView;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::http::Problem;
use pilothouse_domain::AgentSkill;

/// Responds with 200 and the skill.
fn skill_response(skill: &AgentSkill, version: u64) -> Result<CommandResponse, Problem> {
    CommandResponse::ok(version, &SkillView::of(skill, version))
}

/// Responds with 201 and the skill.
fn created(skill: &AgentSkill, version: u64) -> Result<CommandResponse, Problem> {
    CommandResponse::new(StatusCode::CREATED, Some(version), &SkillView::of(skill, version))
}
