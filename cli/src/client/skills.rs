//! Skills (S0 8.9): what they are, what agents learned, and which session has which.

use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus};
use pilothouse_domain::{AgentSessionId, AgentSkillId, MemoryPillId};
use pilothouse_functions::api::Page;
use pilothouse_functions::api::sessions::{SessionView, StartedSession};
use pilothouse_functions::api::skills::{SkillSummary, SkillView};

use super::inputs::{Consolidate, NewSkill, Nothing, SkillChange, Slice};
use super::sessions::of as of_session;
use super::{ApiError, Client};

const SKILLS: &str = "api/agents/skills";

fn of(id: AgentSkillId, rest: &str) -> String {
    format!("{SKILLS}/{id}{rest}")
}

impl Client {
    /// A page of the owner's skills, by name; `active` keeps the active ones or the others.
    pub async fn skills(&self, active: Option<bool>, slice: &Slice) -> Result<Page<SkillSummary>, ApiError> {
        let mut query = slice.query();
        query.extend(active.map(|active| ("isActive", active.to_string())));
        self.get_with(SKILLS.to_owned(), query).await
    }

    /// A skill in full.
    pub async fn skill(&self, id: AgentSkillId) -> Result<SkillView, ApiError> {
        self.get(of(id, "")).await
    }

    /// Creates a skill.
    pub async fn create_skill(&self, skill: &NewSkill) -> Result<SkillView, ApiError> {
        self.post(SKILLS.to_owned(), skill).await
    }

    /// Changes a skill.
    pub async fn change_skill(&self, id: AgentSkillId, change: &SkillChange) -> Result<SkillView, ApiError> {
        self.put(of(id, ""), change).await
    }

    /// Lets sessions be given a skill, or no session any more.
    pub async fn set_skill_active(&self, id: AgentSkillId, active: bool) -> Result<SkillView, ApiError> {
        self.post(of(id, if active { "/activate" } else { "/deactivate" }), &Nothing {}).await
    }

    /// A page of what agents learned, newest first.
    pub async fn memory_pills(
        &self,
        id: AgentSkillId,
        status: Option<MemoryPillStatus>,
        slice: &Slice,
    ) -> Result<Page<MemoryPill>, ApiError> {
        let mut query = slice.query();
        query.extend(status.map(|status| ("status", format!("{status:?}"))));
        self.get_with(of(id, "/memory-pills"), query).await
    }

    /// Discards a memory pill.
    pub async fn dismiss_pill(&self, id: AgentSkillId, pill: MemoryPillId) -> Result<SkillView, ApiError> {
        self.delete(of(id, &format!("/memory-pills/{pill}"))).await
    }

    /// Starts a session that folds the memory pills into the instructions.
    pub async fn consolidate_skill(
        &self,
        id: AgentSkillId,
        with: &Consolidate,
    ) -> Result<StartedSession, ApiError> {
        self.post(of(id, "/consolidate"), with).await
    }

    /// Loads a skill into a session.
    pub async fn enable_skill(
        &self,
        session: AgentSessionId,
        skill: AgentSkillId,
    ) -> Result<SessionView, ApiError> {
        self.post(of_session(session, &format!("/skills/{skill}/enable")), &Nothing {}).await
    }

    /// Takes a skill out of a session.
    pub async fn disable_skill(
        &self,
        session: AgentSessionId,
        skill: AgentSkillId,
    ) -> Result<SessionView, ApiError> {
        self.delete(of_session(session, &format!("/skills/{skill}"))).await
    }

    /// Has a session's sidecar take the configuration as it is now.
    pub async fn reload(&self, session: AgentSessionId) -> Result<SessionView, ApiError> {
        self.post(of_session(session, "/reload"), &Nothing {}).await
    }
}
