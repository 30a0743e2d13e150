//! Combines a start request and its template to a session.

use std::collections::BTreeMap;

use serde_json::Value;

use super::AgentTemplate;
use super::schedule::ScheduledLaunch;
use crate::session::{NewSession, SessionOptions, SessionSettings};
use crate::text::{AdapterName, ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{
    AllowedModels, AutoContinueConfig, ExecutionMode, InvalidBudget, ModelNotAllowed, SessionBudget,
    ThinkingLevel,
};
use crate::{AgentSessionId, AgentSkillId, Usd, UserId};

/// A request to start a session (S0 8.7 `StartAgentSessionCommand`). Missing values come from the template, then from the defaults
/// (decision 20).
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSpec {
    pub working_directory: WorkingDirectory,
    pub objective: Objective,
    /// If missing, the name is made from the objective.
    pub name: Option<SessionName>,
    pub model_id: Option<ModelId>,
    /// Models that the session may use: those of the template.
    pub allowed_models: AllowedModels,
    pub thinking_level: Option<ThinkingLevel>,
    pub budget_cap_usd: Option<Usd>,
    /// Warning threshold in percent of the cap.
    pub warn_at_percent: Option<u8>,
    /// Whether spend that the agent does not report is allowed (decision 32).
    pub allow_unmetered: Option<bool>,
    /// Skills in order, instead of the template's.
    pub skill_ids: Option<Vec<AgentSkillId>>,
    pub auto_continue: Option<AutoContinueConfig>,
    pub execution_mode: Option<ExecutionMode>,
    pub adapter: Option<AdapterName>,
    pub adapter_options: Option<Value>,
    /// Tools that the agent may use, instead of the template's. If empty, each launch reads the template's list.
    pub allowed_tools: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// The options, where they differ from the template's.
    pub options: SessionOptions,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedSession {
    pub new: NewSession,
    pub skill_ids: Vec<AgentSkillId>,
    pub execution_mode: ExecutionMode,
}

/// A request and its template do not specify a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncompleteSpec {
    /// The cap is missing or not valid.
    #[error(transparent)]
    Budget(#[from] InvalidBudget),
    /// The template does not allow the model, or that of the adapter's options.
    #[error(transparent)]
    Model(#[from] ModelNotAllowed),
    /// No adapter is named, and the server has no default.
    #[error("name an adapter, because this server has no default adapter")]
    NoAdapter,
}

impl SessionSpec {
    pub fn new(working_directory: WorkingDirectory, objective: Objective) -> Self {
        Self {
            working_directory,
            objective,
            name: None,
            model_id: None,
            allowed_models: AllowedModels::default(),
            thinking_level: None,
            budget_cap_usd: None,
            warn_at_percent: None,
            allow_unmetered: None,
            skill_ids: None,
            auto_continue: None,
            execution_mode: None,
            adapter: None,
            adapter_options: None,
            allowed_tools: Vec::new(),
            labels: BTreeMap::new(),
            options: SessionOptions::default(),
        }
    }

    pub fn scheduled(launch: &ScheduledLaunch) -> Self {
        Self {
            name: launch.name.clone(),
            ..Self::new(launch.working_directory.clone(), launch.objective.clone())
        }
    }

    /// Fills the request from `template` and the defaults. The caller has checked that the template is active.
    pub fn resolve(
        self,
        id: AgentSessionId,
        owner_id: UserId,
        template: Option<&AgentTemplate>,
        default_adapter: Option<&AdapterName>,
    ) -> Result<ResolvedSession, IncompleteSpec> {
        let spec = match template {
            Some(template) => self.filled_from(template),
            None => self,
        };
        let adapter = spec.adapter.as_ref().or(default_adapter).ok_or(IncompleteSpec::NoAdapter)?;
        let model_id = spec.model_id.clone().unwrap_or_else(ModelId::adapter_default);
        spec.allowed_models.check(&model_id)?;
        spec.allowed_models.check_options(spec.adapter_options.as_ref().unwrap_or(&Value::Null))?;
        let new = NewSession {
            id,
            owner_id,
            template_id: template.map(AgentTemplate::id),
            name: spec.name.clone(),
            working_directory: spec.working_directory.clone(),
            objective: spec.objective.clone(),
            model_id,
            budget: spec.budget()?,
            auto_continue: spec.auto_continue.clone(),
            settings: spec.settings(adapter.clone()),
        };
        Ok(ResolvedSession {
            new,
            skill_ids: spec.skill_ids.unwrap_or_default(),
            execution_mode: spec.execution_mode.unwrap_or(ExecutionMode::Standalone),
        })
    }

    /// Takes missing values from the template, except its prompt and tools, which each launch reads.
    fn filled_from(mut self, template: &AgentTemplate) -> Self {
        let base = template.content();
        // Options are meant for one adapter.
        if self.adapter.is_none() || self.adapter == base.adapter {
            self.adapter_options.get_or_insert_with(|| base.adapter_options.clone());
        }
        self.model_id.get_or_insert_with(|| base.model_id.clone());
        self.allowed_models = base.allowed_models.clone();
        self.budget_cap_usd.get_or_insert_with(|| base.default_budget.hard_cap_usd());
        self.warn_at_percent.get_or_insert_with(|| base.default_budget.warn_at_percent());
        self.allow_unmetered.get_or_insert(base.default_budget.allows_unmetered());
        self.skill_ids.get_or_insert_with(|| template.default_skill_ids().to_vec());
        self.execution_mode.get_or_insert(base.execution_mode);
        self.options = self.options.or(&base.options);
        self.adapter = self.adapter.or_else(|| base.adapter.clone());
        self.auto_continue = self.auto_continue.or_else(|| base.default_auto_continue_config.clone());
        self
    }

    fn budget(&self) -> Result<SessionBudget, InvalidBudget> {
        let warn_at = self.warn_at_percent.unwrap_or(SessionBudget::DEFAULT_WARN_AT_PERCENT);
        let budget = SessionBudget::new(self.budget_cap_usd.unwrap_or(Usd::ZERO), warn_at)?;
        Ok(budget.allowing_unmetered(self.allow_unmetered.unwrap_or(false)))
    }

    fn settings(&self, adapter: AdapterName) -> SessionSettings {
        let usual = SessionSettings::with_options(adapter, self.options.clone());
        SessionSettings {
            adapter_options: self.adapter_options.clone().unwrap_or(usual.adapter_options),
            allowed_tools: self.allowed_tools.clone(),
            allowed_models: self.allowed_models.clone(),
            labels: self.labels.clone(),
            thinking_level: self.thinking_level,
            ..usual
        }
    }
}
