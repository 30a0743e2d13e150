//! The part of a session that its owner decides on: its work, and the set-up of its agent.

use serde::{Deserialize, Serialize};

use super::{SessionError, SessionSettings};
use crate::text::{ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{AgentSettings, ExecutionMode, MessageImage, ProjectMembership, ThinkingLevel};
use crate::{AgentSkillId, AgentTemplateId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionDefinition {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) template_id: Option<AgentTemplateId>,
    pub(super) name: SessionName,
    pub(super) working_directory: WorkingDirectory,
    pub(super) objective: Objective,
    /// Images of the objective.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) images: Vec<MessageImage>,
    pub(super) model_id: ModelId,
    /// In order, without duplicates, and at most [`Self::MAX_SKILLS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    enabled_skill_ids: Vec<AgentSkillId>,
    pub(super) execution_mode: ExecutionMode,
    pub(super) settings: SessionSettings,
    /// The skill whose memory pills the session consolidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) consolidates: Option<AgentSkillId>,
    /// The agent of a project that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<ProjectMembership>,
}

impl SessionDefinition {
    /// Most skills of a session.
    pub(super) const MAX_SKILLS: usize = 20;

    pub(super) const fn new(
        template_id: Option<AgentTemplateId>,
        name: SessionName,
        working_directory: WorkingDirectory,
        objective: Objective,
        model_id: ModelId,
        settings: SessionSettings,
    ) -> Self {
        Self {
            template_id,
            name,
            working_directory,
            objective,
            images: Vec::new(),
            model_id,
            enabled_skill_ids: Vec::new(),
            execution_mode: ExecutionMode::Standalone,
            settings,
            consolidates: None,
            project: None,
        }
    }

    /// The definition of a session that continues the work: the same, but with the objective of the chain. Its handoff document
    /// takes the place of the images.
    pub(super) fn continued(&self, objective: Objective) -> Self {
        Self { objective, images: Vec::new(), consolidates: None, ..self.clone() }
    }

    pub(super) fn enabled_skill_ids(&self) -> &[AgentSkillId] {
        &self.enabled_skill_ids
    }

    /// Sets the skills, in their order and without duplicates.
    pub(super) fn set_skills(&mut self, skills: &[AgentSkillId]) -> Result<(), SessionError> {
        let mut equipped = Vec::with_capacity(skills.len());
        for skill in skills {
            if !equipped.contains(skill) {
                equipped.push(*skill);
            }
        }
        if equipped.len() > Self::MAX_SKILLS {
            return Err(SessionError::TooManySkills { max: Self::MAX_SKILLS });
        }
        self.enabled_skill_ids = equipped;
        Ok(())
    }

    /// Enables a skill, as the last in order. Returns whether it was disabled.
    pub(super) fn enable_skill(&mut self, skill: AgentSkillId) -> Result<bool, SessionError> {
        if self.enabled_skill_ids.contains(&skill) {
            return Ok(false);
        }
        if self.enabled_skill_ids.len() >= Self::MAX_SKILLS {
            return Err(SessionError::TooManySkills { max: Self::MAX_SKILLS });
        }
        self.enabled_skill_ids.push(skill);
        Ok(true)
    }

    pub(super) fn disable_skill(&mut self, skill: AgentSkillId) -> Result<(), SessionError> {
        let at = self.enabled_skill_ids.iter().position(|enabled| *enabled == skill);
        self.enabled_skill_ids.remove(at.ok_or(SessionError::SkillNotEnabled)?);
        Ok(())
    }

    /// Chooses a model. Ignores a name that is not a model id.
    pub(super) fn choose_model(&mut self, model: &str) {
        if let Ok(model) = ModelId::parse(model) {
            self.model_id = model;
        }
    }

    pub(super) const fn choose_thinking_level(&mut self, level: ThinkingLevel) {
        self.settings.thinking_level = Some(level);
    }

    pub(super) fn agent_settings(&self) -> AgentSettings {
        AgentSettings {
            model_id: crate::text::cut(self.model_id.as_str(), AgentSettings::MAX_NAME),
            thinking_level: self.settings.thinking_level,
            available_models: Vec::new(),
        }
    }
}
