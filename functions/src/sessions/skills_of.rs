//! The skills that a template gives to a session: those that are active (S0 8.4: deactivated skills cannot be enabled on
//! new sessions).

use pilothouse_domain::{AgentSkill, AgentSkillId, UserId};

use crate::app::App;
use crate::edge::Problem;

impl App {
    /// Those of a template's default skills that can be enabled now: one that was deactivated since is left out.
    pub(crate) async fn active_skills(
        &self,
        owner: &UserId,
        ids: &[AgentSkillId],
    ) -> Result<Vec<AgentSkillId>, Problem> {
        let mut active = Vec::new();
        for id in ids {
            let skill = self.store.owned::<AgentSkill>(owner, *id).await?;
            if skill.is_some_and(|skill| skill.value.is_active()) {
                active.push(*id);
            }
        }
        Ok(active)
    }
}
