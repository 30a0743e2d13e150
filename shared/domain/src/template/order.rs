//! From what a start says, and what its template says, to a session.

use std::collections::BTreeMap;

use serde_json::Value;

use super::AgentTemplate;
use super::schedule::ScheduledLaunch;
use crate::session::{NewSession, SessionSettings};
use crate::text::{AdapterName, AnswerText, ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{
    AutoContinueConfig, ContextPolicy, ExecutionMode, InvalidBudget, SessionBudget, ThinkingLevel,
};
use crate::{AgentSessionId, AgentSkillId, Usd, UserId};

/// What a start says (S0 8.7 `StartAgentSessionCommand`). What it leaves open comes from the template, and what that
/// leaves open from the defaults (ruling 20).
#[derive(Debug, Clone, PartialEq)]
pub struct SessionOrder {
    /// Where the agent runs.
    pub working_directory: WorkingDirectory,
    /// What it is to do.
    pub objective: Objective,
    /// The session's name; none: made from the objective.
    pub name: Option<SessionName>,
    /// The model.
    pub model_id: Option<ModelId>,
    /// How deeply its agent thinks.
    pub thinking_level: Option<ThinkingLevel>,
    /// The most dollars that it may spend.
    pub budget_cap_usd: Option<Usd>,
    /// At which percentage of the cap its owner is warned.
    pub warn_at_percent: Option<u8>,
    /// The skills, in order; they stand in place of the template's.
    pub skill_ids: Option<Vec<AgentSkillId>>,
    /// When it goes on by itself.
    pub auto_continue: Option<AutoContinueConfig>,
    /// How it came to run.
    pub execution_mode: Option<ExecutionMode>,
    /// The adapter.
    pub adapter: Option<AdapterName>,
    /// What the adapter alone understands.
    pub adapter_options: Option<Value>,
    /// Tools that the agent may use, in place of the template's; none: as the template says at each launch.
    pub allowed_tools: Vec<String>,
    /// Labels for the owner's own order.
    pub labels: BTreeMap<String, String>,
    /// Whether leaving plan mode waits for the owner.
    pub plan_approval_required: Option<bool>,
    /// Seconds that a question or a plan may wait.
    pub request_timeout_seconds: Option<u64>,
    /// The answer that stands in when nobody answers in time.
    pub default_answer: Option<AnswerText>,
    /// How full the context window may get before a warning, in percent.
    pub context_warn_at_percent: Option<u8>,
    /// What is done when the context window fills up.
    pub context_policy: Option<ContextPolicy>,
    /// Seconds of quiet after which it hibernates.
    pub idle_timeout_seconds: Option<u64>,
    /// The same while it is Paused.
    pub paused_timeout_seconds: Option<u64>,
}

/// What an order makes.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedSession {
    /// What the session is created from.
    pub new: NewSession,
    /// The skills that it is equipped with, in order.
    pub skill_ids: Vec<AgentSkillId>,
    /// How it comes to run.
    pub execution_mode: ExecutionMode,
}

impl SessionOrder {
    /// A start that leaves everything open that can be.
    pub const fn new(working_directory: WorkingDirectory, objective: Objective) -> Self {
        Self {
            working_directory,
            objective,
            name: None,
            model_id: None,
            thinking_level: None,
            budget_cap_usd: None,
            warn_at_percent: None,
            skill_ids: None,
            auto_continue: None,
            execution_mode: None,
            adapter: None,
            adapter_options: None,
            allowed_tools: Vec::new(),
            labels: BTreeMap::new(),
            plan_approval_required: None,
            request_timeout_seconds: None,
            default_answer: None,
            context_warn_at_percent: None,
            context_policy: None,
            idle_timeout_seconds: None,
            paused_timeout_seconds: None,
        }
    }

    /// What a schedule starts.
    pub fn scheduled(launch: &ScheduledLaunch) -> Self {
        Self {
            name: launch.name.clone(),
            ..Self::new(launch.working_directory.clone(), launch.objective.clone())
        }
    }

    /// The session that this makes, of `template` if it is given. Whether the template may be used has been asked.
    ///
    /// # Errors
    /// [`InvalidBudget`] when the cap is missing, or is none.
    pub fn resolve(
        self,
        id: AgentSessionId,
        owner_id: UserId,
        template: Option<&AgentTemplate>,
    ) -> Result<OrderedSession, InvalidBudget> {
        let order = match template {
            Some(template) => self.filled_from(template),
            None => self,
        };
        let new = NewSession {
            id,
            owner_id,
            template_id: template.map(AgentTemplate::id),
            name: order.name.clone(),
            working_directory: order.working_directory.clone(),
            objective: order.objective.clone(),
            model_id: order.model_id.clone().unwrap_or_else(ModelId::of_the_adapter),
            budget: order.budget()?,
            auto_continue: order.auto_continue.clone(),
            settings: order.settings(),
        };
        Ok(OrderedSession {
            new,
            skill_ids: order.skill_ids.unwrap_or_default(),
            execution_mode: order.execution_mode.unwrap_or(ExecutionMode::Standalone),
        })
    }

    /// What is left open comes from the template. Its prompt and its tools are read at each launch.
    fn filled_from(mut self, template: &AgentTemplate) -> Self {
        let base = template.content();
        // Options are for one adapter alone.
        if self.adapter.is_none() || self.adapter == base.adapter {
            self.adapter_options.get_or_insert_with(|| base.adapter_options.clone());
        }
        self.model_id.get_or_insert_with(|| base.model_id.clone());
        self.budget_cap_usd.get_or_insert_with(|| base.default_budget.hard_cap_usd());
        self.warn_at_percent.get_or_insert_with(|| base.default_budget.warn_at_percent());
        self.skill_ids.get_or_insert_with(|| template.default_skill_ids().to_vec());
        self.execution_mode.get_or_insert(base.execution_mode);
        self.plan_approval_required.get_or_insert(base.plan_approval_required);
        self.adapter = self.adapter.or_else(|| base.adapter.clone());
        self.auto_continue = self.auto_continue.or_else(|| base.default_auto_continue_config.clone());
        self.default_answer = self.default_answer.or_else(|| base.default_answer.clone());
        self.request_timeout_seconds = self.request_timeout_seconds.or(base.request_timeout_seconds);
        self.context_warn_at_percent = self.context_warn_at_percent.or(base.context_warn_at_percent);
        self.context_policy = self.context_policy.or(base.context_policy);
        self.idle_timeout_seconds = self.idle_timeout_seconds.or(base.idle_timeout_seconds);
        self.paused_timeout_seconds = self.paused_timeout_seconds.or(base.paused_timeout_seconds);
        self
    }

    fn budget(&self) -> Result<SessionBudget, InvalidBudget> {
        let warn_at = self.warn_at_percent.unwrap_or(SessionBudget::DEFAULT_WARN_AT_PERCENT);
        SessionBudget::new(self.budget_cap_usd.unwrap_or(Usd::ZERO), warn_at)
    }

    fn settings(&self) -> SessionSettings {
        let usual = SessionSettings::default();
        SessionSettings {
            adapter: self.adapter.clone().unwrap_or(usual.adapter),
            adapter_options: self.adapter_options.clone().unwrap_or(usual.adapter_options),
            allowed_tools: self.allowed_tools.clone(),
            labels: self.labels.clone(),
            plan_approval_required: self.plan_approval_required.unwrap_or(usual.plan_approval_required),
            request_timeout_seconds: self.request_timeout_seconds.unwrap_or(usual.request_timeout_seconds),
            default_answer: self.default_answer.as_ref().map(ToString::to_string),
            context_warn_at_percent: self.context_warn_at_percent.unwrap_or(usual.context_warn_at_percent),
            context_policy: self.context_policy.unwrap_or(usual.context_policy),
            max_retries: usual.max_retries,
            idle_timeout_seconds: self.idle_timeout_seconds.unwrap_or(usual.idle_timeout_seconds),
            paused_timeout_seconds: self.paused_timeout_seconds.unwrap_or(usual.paused_timeout_seconds),
            thinking_level: self.thinking_level,
        }
    }
}
