//! Bodies and queries of requests. Absent fields are not sent, so that the server's defaults apply.

use std::collections::BTreeMap;

pub use pilothouse_api::images::ImageUpload;
pub use pilothouse_api::patch::Patch;
use pilothouse_domain::brake::{BrakeBehavior, BrakeScope};
use pilothouse_domain::decision::{DecisionKind, DecisionStatus, ResolutionType};
use pilothouse_domain::session::SessionOptions;
use pilothouse_domain::value::{
    Answer, AutoContinueConfig, ContextPolicy, CycleDirection, ExecutionMode, MessagePriority, ThinkingLevel,
};
use pilothouse_domain::{
    AgentSessionId, AgentSkillId, AgentTemplateId, MessageId, ProjectAgentId, SessionChainId, ToolCallId,
    TurnId, Usd,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Pulls an emergency brake.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PullBrake {
    /// The sessions to stop.
    pub scope: BrakeScope,
    /// Why they are stopped.
    pub reason: String,
    /// Whether the agents are suspended or their processes ended.
    pub behavior: BrakeBehavior,
    /// Seconds until the server releases the brake; a person does if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_after_seconds: Option<u64>,
    /// What else releases the brake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_condition: Option<ReleaseCondition>,
}

/// What releases a brake, in addition to a person and a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ReleaseCondition {
    /// The approval of a decision in the inbox, which the brake opens.
    Decision,
}

/// Releases a brake.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleaseBrake {
    /// The sessions to release; all if neither sessions nor agents are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_ids: Option<Vec<AgentSessionId>>,
    /// The agents of projects to release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_ids: Option<Vec<ProjectAgentId>>,
}

/// Starts a session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartSession {
    /// Absolute path of the agent's working directory.
    pub working_directory: String,
    /// The task of the agent.
    pub objective: String,
    /// Images of the task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageUpload>,
    /// Template of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_id: Option<AgentTemplateId>,
    /// Spending cap; the template's cap if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_cap_usd: Option<Usd>,
    /// Name of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// Thinking level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// Adapter that drives the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// Options of the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_options: Option<Value>,
    /// Tools that the agent may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Skills to enable, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skill_ids: Vec<AgentSkillId>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Percentage of the cap at which the owner is warned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn_at_percent: Option<u8>,
    /// Allows an agent whose spending is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unmetered: Option<bool>,
    /// Options of the session.
    #[serde(flatten)]
    pub options: SessionOptions,
    /// Chain that the session continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<SessionChainId>,
    /// Conditions for automatic continuation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_continue_config: Option<AutoContinueConfig>,
}

impl StartSession {
    /// Creates a request that leaves everything else to the server's defaults.
    pub fn new(
        working_directory: impl Into<String>,
        objective: impl Into<String>,
        budget_cap_usd: impl Into<Option<Usd>>,
    ) -> Self {
        Self {
            working_directory: working_directory.into(),
            objective: objective.into(),
            images: Vec::new(),
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
            allow_unmetered: None,
            options: SessionOptions::default(),
            chain_id: None,
            auto_continue_config: None,
        }
    }
}

/// Schedule of a template.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSchedule {
    /// Cron expression with five fields.
    pub cron_expression: String,
    /// IANA time zone of the expression.
    pub time_zone: String,
    /// Whether the schedule is active.
    pub is_enabled: bool,
    /// Input of the sessions that it starts.
    pub launch: ScheduledLaunch,
}

/// Input of scheduled sessions.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledLaunch {
    /// Absolute path of the agent's working directory.
    pub working_directory: String,
    /// The task of the agent.
    pub objective: String,
    /// Name of the sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Selects a page of a list.
#[derive(Debug, Clone, Default)]
pub struct PageQuery {
    /// Most items of the page.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl PageQuery {
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let cursor = self.cursor.clone().map(|cursor| ("cursor", cursor));
        limit.into_iter().chain(cursor).collect()
    }
}

/// Which decisions to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecisionFilter {
    /// Their state; pending if absent.
    pub state: Option<DecisionStatus>,
    /// Their kind.
    pub kind: Option<DecisionKind>,
    /// Their session.
    pub session: Option<AgentSessionId>,
    /// Whether to count all pending decisions.
    pub counts: bool,
}

/// Resolves a decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolveDecision {
    /// One of the decision's `resolutions`.
    pub resolution_type: ResolutionType,
    /// The chosen option, for `choose_option`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_option_id: Option<String>,
    /// One answer a question, for `answer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Vec<Answer>>,
    /// Why, for `reject`, and for `choose_option` of options that an agent proposes with its reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Whether all further calls like it are allowed, for `approve` of a tool call of a project's agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always_approve: bool,
    /// The input with which to make the tool call, for `modify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_input: Option<Value>,
}

impl ResolveDecision {
    /// A resolution of this type without further content.
    pub const fn new(resolution_type: ResolutionType) -> Self {
        Self {
            resolution_type,
            chosen_option_id: None,
            answers: None,
            rationale: None,
            always_approve: false,
            modified_input: None,
        }
    }
}

/// Adds a message to the queue.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnqueueMessage {
    /// Text.
    pub content: String,
    /// Images.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageUpload>,
    /// Priority.
    pub priority: MessagePriority,
    /// Id chosen by the sender; a second message with this id changes nothing (decision 28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Turn that the message is meant for (decision 30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_turn_id: Option<TurnId>,
}

impl EnqueueMessage {
    /// Creates a message with this priority.
    pub fn new(content: impl Into<String>, priority: MessagePriority) -> Self {
        Self {
            content: content.into(),
            images: Vec::new(),
            priority,
            message_id: None,
            expected_turn_id: None,
        }
    }
}

/// Edits a pending message.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EditMessage {
    /// New text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New position among messages of the same priority, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

/// Answers the questions of a request.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRequest {
    /// Id of the request.
    pub request_id: ToolCallId,
    /// One answer a question.
    pub answers: Vec<Answer>,
}

/// Retries a failed session (decision 24).
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetrySession {
    /// First instruction to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_instruction: Option<String>,
    /// Whether to start a new conversation.
    pub fresh: bool,
}

/// Changes the model or the thinking level (S1 5).
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdjustSession {
    /// New model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// Switches to the next or previous model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle_model: Option<CycleDirection>,
    /// New thinking level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
}

/// Creates a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateSkill {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Instructions to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Updates a skill; absent fields keep their values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSkill {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Instructions to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Starts a consolidation of a skill.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsolidateSkill {
    /// Absolute path of the agent's working directory.
    pub working_directory: String,
    /// Spending cap.
    pub budget_cap_usd: Usd,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// Adapter that drives the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// Options of the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_options: Option<Value>,
}

/// Updates a template; absent fields keep their values.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateTemplate {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Description.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub description: Patch<String>,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// Base instructions, before those of skills.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub system_prompt: Patch<String>,
    /// Tools that the agent may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Spending cap of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_budget_cap_usd: Option<Usd>,
    /// Percentage of the cap at which the owner is warned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn_at_percent: Option<u8>,
    /// Allows an agent whose spending is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unmetered: Option<bool>,
    /// Conditions for automatic continuation.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub default_auto_continue_config: Patch<AutoContinueConfig>,
    /// Whether plans need the owner's approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_approval_required: Option<bool>,
    /// How sessions are executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_mode: Option<ExecutionMode>,
    /// Adapter that drives the agent.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub adapter: Patch<String>,
    /// Options of the adapter.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub adapter_options: Patch<Value>,
    /// Seconds until a question times out.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub request_timeout_seconds: Patch<u64>,
    /// Answer to questions that time out.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub default_answer: Patch<String>,
    /// Percentage of the context window at which the owner is warned.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub context_warn_at_percent: Patch<u8>,
    /// What happens when the context window is nearly full.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub context_policy: Patch<ContextPolicy>,
    /// Idle seconds before a session hibernates; 0 disables hibernation.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub idle_timeout_seconds: Patch<u64>,
    /// The same for a Paused session.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub paused_timeout_seconds: Patch<u64>,
    /// How often a failed session can be retried.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub max_retries: Patch<u32>,
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
#[serde(rename_all = "camelCase")]
pub(super) struct LabelTurn {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turn_id: Option<TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Cancel {
    pub(super) force: bool,
}

/// Updates a budget; absent fields keep their values.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateBudget {
    /// Spending cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_usd: Option<Usd>,
    /// Percentage of the cap at which the owner is warned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn_at_percent: Option<u8>,
    /// Allows an agent whose spending is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unmetered: Option<bool>,
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
pub(super) struct ConfigurePool {
    pub(super) max_concurrent_sessions: u32,
}

/// A body without fields: `{}`.
#[derive(Debug, Serialize)]
pub(super) struct EmptyBody {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Patch, UpdateTemplate};

    #[test]
    fn an_update_sends_null_only_for_fields_to_remove() {
        let update = UpdateTemplate {
            name: Some("Reviewer".into()),
            description: Patch::Clear,
            system_prompt: Patch::Set("Be brief.".into()),
            idle_timeout_seconds: Patch::Set(0),
            ..UpdateTemplate::default()
        };
        let expected = json!({
            "name": "Reviewer", "description": null, "systemPrompt": "Be brief.", "idleTimeoutSeconds": 0,
        });
        assert_eq!(serde_json::to_value(update).unwrap(), expected);
        assert_eq!(serde_json::to_value(UpdateTemplate::default()).unwrap(), json!({}));
    }
}
