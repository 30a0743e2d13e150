//! Path parameters that name a part of an aggregate. A malformed id is answered like an unknown one.

use axum::extract::FromRequestParts;
use http::request::Parts;
use pilothouse_app::http::Problem;
use pilothouse_app::http::request::path_id;
use pilothouse_domain::template::TemplateError;
use pilothouse_domain::{AgentSkillId, ClassificationRuleId, MemoryPillId};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Skill(pub(crate) AgentSkillId);

impl<S: Send + Sync> FromRequestParts<S> for Skill {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "skillId").await.map(Self).map_err(|_| Problem::no_skill())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pill(pub(crate) MemoryPillId);

impl<S: Send + Sync> FromRequestParts<S> for Pill {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "pillId").await.map(Self).map_err(|_| no_pill())
    }
}

pub(crate) fn no_pill() -> Problem {
    Problem::NotFound("the skill has no such memory pill".to_owned())
}

/// The name of a tool or a subagent.
#[derive(Debug, Clone)]
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "name").await.map(Self)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule(pub(crate) ClassificationRuleId);

impl<S: Send + Sync> FromRequestParts<S> for Rule {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "ruleId").await.map(Self).map_err(|_| TemplateError::NoSuchRule.into())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ToolName(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for ToolName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        path_id(parts, state, "toolName").await.map(Self)
    }
}
