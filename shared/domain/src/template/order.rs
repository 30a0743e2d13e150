//! From what a start says, and what its template says, to a session.

use std::collections::BTreeMap;

use serde_json::Value;

use super::AgentTemplate;
use super::schedule::ScheduledLaunch;
use crate::session::{NewSession, SessionSettings};
use crate::text::{AdapterName, AnswerText, ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{AutoContinueConfig, ExecutionMode, InvalidBudget, SessionBudget};
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
        let skill_ids = self
            .skill_ids
            .or_else(|| template.map(|template| template.default_skill_ids().to_vec()))
            .unwrap_or_default();
        let base = template.map(AgentTemplate::content);
        let defaults = SessionSettings::default();
        let given_budget = base.map(|base| &base.default_budget);
        let cap = self.budget_cap_usd.or_else(|| given_budget.map(SessionBudget::hard_cap_usd));
        let warn_at = self.warn_at_percent.or_else(|| given_budget.map(SessionBudget::warn_at_percent));
        // Options are for one adapter alone.
        let same_adapter =
            self.adapter.is_none() || self.adapter == base.and_then(|base| base.adapter.clone());
        let adapter = self.adapter.or_else(|| base.and_then(|base| base.adapter.clone()));
        let options = self
            .adapter_options
            .or_else(|| base.filter(|_| same_adapter).map(|base| base.adapter_options.clone()));
        let approval = self.plan_approval_required.or_else(|| base.map(|base| base.plan_approval_required));
        let timeout =
            self.request_timeout_seconds.or_else(|| base.and_then(|base| base.request_timeout_seconds));
        let answer = self.default_answer.or_else(|| base.and_then(|base| base.default_answer.clone()));
        let warn_context =
            self.context_warn_at_percent.or_else(|| base.and_then(|base| base.context_warn_at_percent));
        let idle = self.idle_timeout_seconds.or_else(|| base.and_then(|base| base.idle_timeout_seconds));
        let paused =
            self.paused_timeout_seconds.or_else(|| base.and_then(|base| base.paused_timeout_seconds));
        let mode = self.execution_mode.or_else(|| base.map(|base| base.execution_mode));
        let new = NewSession {
            id,
            owner_id,
            template_id: template.map(AgentTemplate::id),
            name: self.name,
            working_directory: self.working_directory,
            objective: self.objective,
            model_id: self
                .model_id
                .or_else(|| base.map(|base| base.model_id.clone()))
                .unwrap_or_else(ModelId::of_the_adapter),
            budget: SessionBudget::new(
                cap.unwrap_or(Usd::ZERO),
                warn_at.unwrap_or(SessionBudget::DEFAULT_WARN_AT_PERCENT),
            )?,
            auto_continue: self
                .auto_continue
                .or_else(|| base.and_then(|base| base.default_auto_continue_config.clone())),
            settings: SessionSettings {
                adapter: adapter.unwrap_or(defaults.adapter),
                adapter_options: options.unwrap_or(defaults.adapter_options),
                allowed_tools: self.allowed_tools,
                labels: self.labels,
                plan_approval_required: approval.unwrap_or(defaults.plan_approval_required),
                request_timeout_seconds: timeout.unwrap_or(defaults.request_timeout_seconds),
                default_answer: answer.map(String::from),
                context_warn_at_percent: warn_context.unwrap_or(defaults.context_warn_at_percent),
                max_retries: defaults.max_retries,
                idle_timeout_seconds: idle.unwrap_or(defaults.idle_timeout_seconds),
                paused_timeout_seconds: paused.unwrap_or(defaults.paused_timeout_seconds),
            },
        };
        Ok(OrderedSession { new, skill_ids, execution_mode: mode.unwrap_or(ExecutionMode::Standalone) })
    }
}
