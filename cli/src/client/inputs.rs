//! What is sent: the bodies of commands. Absent fields are not sent, so that the server's defaults hold.

use std::collections::BTreeMap;

use pilothouse_domain::value::{
    Answer, AutoContinueConfig, ContextPolicy, CycleDirection, MessagePriority, ThinkingLevel,
};
use pilothouse_domain::{AgentSkillId, AgentTemplateId, MessageId, SessionChainId, ToolCallId, TurnId, Usd};
use serde::Serialize;
use serde_json::Value;

/// A session to start.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartSession {
    /// Where its agent runs: an absolute path.
    pub working_directory: String,
    /// What it is to do.
    pub objective: String,
    /// The template that it is started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_id: Option<AgentTemplateId>,
    /// What it may spend; none: what its template says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_cap_usd: Option<Usd>,
    /// What to call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// How deeply its agent thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// What drives its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// What the adapter alone understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_options: Option<Value>,
    /// Tools that it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Skills that it starts with, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skill_ids: Vec<AgentSkillId>,
    /// The owner's labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Warn at this share of the cap, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn_at_percent: Option<u8>,
    /// Whether its plan waits for the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_approval_required: Option<bool>,
    /// Seconds that its questions may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout_seconds: Option<u64>,
    /// The answer that stands in when nobody answers in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_answer: Option<String>,
    /// Warn when the context window is this full, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_warn_at_percent: Option<u8>,
    /// Seconds without a word after which it hibernates; 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u64>,
    /// The same while it is Paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_timeout_seconds: Option<u64>,
    /// What is done when the context window fills up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_policy: Option<ContextPolicy>,
    /// The chain that it goes on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<SessionChainId>,
    /// When it goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_continue_config: Option<AutoContinueConfig>,
}

impl StartSession {
    /// A session with everything else left to the server's defaults.
    pub fn new(
        working_directory: impl Into<String>,
        objective: impl Into<String>,
        budget_cap_usd: impl Into<Option<Usd>>,
    ) -> Self {
        Self {
            working_directory: working_directory.into(),
            objective: objective.into(),
            template_id: None,
            budget_cap_usd: budget_cap_usd.into(),
            name: None,
            model_id: None,
            thinking_level: None,
            adapter: None,
            adapter_options: None,
            allowed_tools: None,
            skill_ids: Vec::new(),
            labels: BTreeMap::new(),
            warn_at_percent: None,
            plan_approval_required: None,
            request_timeout_seconds: None,
            default_answer: None,
            context_warn_at_percent: None,
            idle_timeout_seconds: None,
            paused_timeout_seconds: None,
            context_policy: None,
            chain_id: None,
            auto_continue_config: None,
        }
    }
}

/// When a template starts sessions by itself.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSchedule {
    /// Five fields.
    pub cron_expression: String,
    /// A name of the IANA database.
    pub time_zone: String,
    /// Whether it is switched on.
    pub is_enabled: bool,
    /// What its sessions are started with.
    pub launch: NewLaunch,
}

/// What scheduled sessions are started with.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewLaunch {
    /// Where the agent runs: an absolute path.
    pub working_directory: String,
    /// What it is to do.
    pub objective: String,
    /// What to call the sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Which part of a list.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    /// The most items of one answer.
    pub limit: Option<u32>,
    /// Where the answer before it ended.
    pub cursor: Option<String>,
}

impl Slice {
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let cursor = self.cursor.clone().map(|cursor| ("cursor", cursor));
        limit.into_iter().chain(cursor).collect()
    }
}

/// A message for the agent.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewMessage {
    /// What it says.
    pub content: String,
    /// How urgent it is.
    pub priority: MessagePriority,
    /// Its id, when the sender chooses it: sending it again changes nothing (ruling 28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The turn that it is meant for (ruling 30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_turn_id: Option<TurnId>,
}

impl NewMessage {
    /// A message of this priority.
    pub fn new(content: impl Into<String>, priority: MessagePriority) -> Self {
        Self { content: content.into(), priority, message_id: None, expected_turn_id: None }
    }
}

/// Changes of a message that waits.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageChange {
    /// Its new text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Its new place among those of its priority, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

/// Answers to the questions of a request.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// The request.
    pub request_id: ToolCallId,
    /// One for each of its questions.
    pub answers: Vec<Answer>,
}

/// How a failed session is tried again (ruling 24).
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// What it is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_instruction: Option<String>,
    /// Whether it begins a new conversation.
    pub fresh: bool,
}

/// How an agent is to work (S1 5).
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Adjust {
    /// With this model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// With the next or the previous one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle_model: Option<CycleDirection>,
    /// Thinking this deeply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
}

/// A skill to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSkill {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it tells the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Changes of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillChange {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it tells the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Where and with what a consolidation works.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Consolidate {
    /// Where its agent runs: an absolute path.
    pub working_directory: String,
    /// What it may spend.
    pub budget_cap_usd: Usd,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// What drives its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// What the adapter alone understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_options: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    pub(super) clear_queue: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Compact {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fork {
    pub(super) before_turn_id: TurnId,
}

#[derive(Debug, Serialize)]
pub(super) struct Cancel {
    pub(super) force: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewBudget {
    pub(super) cap_usd: Usd,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warn_at_percent: Option<u8>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanDecision<'a> {
    pub(super) request_id: &'a ToolCallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) feedback: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewPoolMaximum {
    pub(super) max_concurrent_sessions: u32,
}

/// A body with nothing in it.
#[derive(Debug, Serialize)]
pub(super) struct Nothing {}
