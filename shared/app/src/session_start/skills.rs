//! The skills that a template enables on a session: only active ones (S0 8.4: deactivated skills cannot be enabled on new
//! sessions).

use pilothouse_domain::{AgentSkill, AgentSkillId, UserId};

use crate::App;
use crate::problem::Problem;

impl App {
    /// Returns a template's default skills without those that were deactivated.
    pub(super) async fn active_skills(
        &self,
        owner: &UserId,
        ids: &[AgentSkillId],
    ) -> Result<Vec<AgentSkillId>, Problem> {
        let mut active = Vec::new();
        for id in ids {
            let skill = self.store.aggregate::<AgentSkill>(owner, *id).await?;
            if skill.is_some_and(|skill| skill.value.is_active()) {
                active.push(*id);
            }
        }
        Ok(active)
    }
}
