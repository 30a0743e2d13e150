//! Skills (S0 8.9), their memory pills, and the skills of a session.

use pilothouse_api::Page;
use pilothouse_api::sessions::{SessionView, StartedSession};
use pilothouse_api::skills::{SkillSummary, SkillView};
use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus};
use pilothouse_domain::{AgentSessionId, AgentSkillId, MemoryPillId};

use super::inputs::{ConsolidateSkill, CreateSkill, EmptyBody, PageQuery, UpdateSkill};
use super::sessions::session_path;
use super::{ApiError, Client};

const SKILLS: &str = "api/agents/skills";

fn skill_path(id: AgentSkillId, rest: &str) -> String {
    format!("{SKILLS}/{id}{rest}")
}

impl Client {
    /// Lists a page of the owner's skills by name; `active` selects active or inactive ones.
    pub async fn skills(
        &self,
        active: Option<bool>,
        page_query: &PageQuery,
    ) -> Result<Page<SkillSummary>, ApiError> {
        let mut query = page_query.query();
        query.extend(active.map(|active| ("isActive", active.to_string())));
        self.get_with(SKILLS.to_owned(), query).await
    }

    /// Reads a skill.
    pub async fn skill(&self, id: AgentSkillId) -> Result<SkillView, ApiError> {
        self.get(skill_path(id, "")).await
    }

    /// Creates a skill.
    pub async fn create_skill(&self, skill: &CreateSkill) -> Result<SkillView, ApiError> {
        self.post(SKILLS.to_owned(), skill).await
    }

    /// Updates a skill.
    pub async fn update_skill(&self, id: AgentSkillId, change: &UpdateSkill) -> Result<SkillView, ApiError> {
        self.put(skill_path(id, ""), change).await
    }

    /// Activates or deactivates a skill: new sessions cannot use an inactive skill.
    pub async fn set_skill_active(&self, id: AgentSkillId, active: bool) -> Result<SkillView, ApiError> {
        self.post(skill_path(id, if active { "/activate" } else { "/deactivate" }), &EmptyBody {}).await
    }

    /// Lists a page of the memory pills of a skill, newest first.
    pub async fn memory_pills(
        &self,
        id: AgentSkillId,
        status: Option<MemoryPillStatus>,
        page_query: &PageQuery,
    ) -> Result<Page<MemoryPill>, ApiError> {
        let mut query = page_query.query();
        query.extend(status.map(|status| ("status", status.to_string())));
        self.get_with(skill_path(id, "/memory-pills"), query).await
    }

    /// Discards a memory pill.
    pub async fn dismiss_memory_pill(
        &self,
        id: AgentSkillId,
        pill: MemoryPillId,
    ) -> Result<SkillView, ApiError> {
        self.delete(skill_path(id, &format!("/memory-pills/{pill}"))).await
    }

    /// Starts a session that merges the memory pills into the instructions.
    pub async fn consolidate_skill(
        &self,
        id: AgentSkillId,
        input: &ConsolidateSkill,
    ) -> Result<StartedSession, ApiError> {
        self.post(skill_path(id, "/consolidate"), input).await
    }

    /// Enables a skill in a session.
    pub async fn enable_skill(
        &self,
        session: AgentSessionId,
        skill: AgentSkillId,
    ) -> Result<SessionView, ApiError> {
        self.post(session_path(session, &format!("/skills/{skill}/enable")), &EmptyBody {}).await
    }

    /// Disables a skill in a session.
    pub async fn disable_skill(
        &self,
        session: AgentSessionId,
        skill: AgentSkillId,
    ) -> Result<SessionView, ApiError> {
        self.delete(session_path(session, &format!("/skills/{skill}"))).await
    }

    /// Makes the sidecar of a session reload its configuration.
    pub async fn reload(&self, session: AgentSessionId) -> Result<SessionView, ApiError> {
        self.post(session_path(session, "/reload"), &EmptyBody {}).await
    }
}
