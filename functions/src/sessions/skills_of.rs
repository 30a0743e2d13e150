//! The skills that a session is started with, or a template gives: they must be the owner's, and active (S0 8.4:
//! deactivated skills cannot be enabled on new sessions).

use pilothouse_domain::{AgentSkill, AgentSkillId, UserId};

use crate::api::Violation;
use crate::app::App;
use crate::edge::Problem;

impl App {
    /// Refuses skills that are not there, another owner's, or deactivated; every one of them is named.
    pub(crate) async fn check_skills(
        &self,
        owner: &UserId,
        field: &str,
        ids: &[AgentSkillId],
    ) -> Result<(), Problem> {
        let mut violations = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            let skill = self.store.owned::<AgentSkill>(owner, *id).await?;
            let message = match skill {
                None => format!("there is no skill {id}"),
                Some(skill) if !skill.value.is_active() => {
                    format!("the skill {} is deactivated", skill.value.name())
                }
                Some(_) => continue,
            };
            violations.push(Violation { field: format!("{field}[{at}]"), message });
        }
        if violations.is_empty() { Ok(()) } else { Err(Problem::Invalid(violations)) }
    }

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
