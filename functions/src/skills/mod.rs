//! Skills: instructions, tools and subagents for sessions, and the memory pills of agents (S0 8.4 `AgentSkill`, 8.9).

pub mod activate;
pub mod add_sub_agent;
pub mod add_tool;
pub mod consolidate;
pub mod create;
pub mod deactivate;
pub mod definitions;
pub mod dismiss_pill;
pub mod get;
pub mod list;
pub mod memory_pills;
pub mod remove_sub_agent;
pub mod remove_tool;
pub mod update;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;
use pilothouse_domain::{AgentSkill, AgentSkillId, MemoryPillId};

use crate::api::skills::SkillView;
use crate::change::Answer;
use crate::edge::Problem;
use crate::edge::request::path_id;

/// 200 with the skill.
fn answer(skill: &AgentSkill, version: u64) -> Result<Answer, Problem> {
    Answer::ok(version, &SkillView::of(skill, version))
}

/// 201 with the skill.
fn created(skill: &AgentSkill, version: u64) -> Result<Answer, Problem> {
    Answer::new(StatusCode::CREATED, Some(version), &SkillView::of(skill, version))
}

/// The refusal where there is no such skill of the caller's.
pub(crate) fn no_skill() -> Problem {
    Problem::NotFound("there is no such skill".to_owned())
}

/// `{skillId}` in a path. An id that is none answers like one that is not there.
#[derive(Debug, Clone, Copy)]
pub struct Skill(pub AgentSkillId);

impl<S: Send + Sync> FromRequestParts<S> for Skill {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "skillId").await.map(Self).map_err(|_| no_skill())
    }
}

/// `{pillId}` in a path.
#[derive(Debug, Clone, Copy)]
pub struct Pill(pub MemoryPillId);

impl<S: Send + Sync> FromRequestParts<S> for Pill {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "pillId").await.map(Self).map_err(|_| no_pill())
    }
}

/// The refusal where the skill has no such pill.
fn no_pill() -> Problem {
    Problem::NotFound("the skill has no such memory pill".to_owned())
}

/// `{name}` of a tool or a subagent in a path.
#[derive(Debug, Clone)]
pub struct Name(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "name").await.map(Self)
    }
}
