//! Commands: what the control plane asks of a sidecar (S0 8.2, 8.3).

use pilothouse_domain::value::{
    Adjustment, Answer, ContextPolicy, HandoffDocument, McpToolDefinition, MessagePriority, MessageSource,
    SkillSubAgentDefinition, ThinkingLevel, ValidationCriterion,
};
use pilothouse_domain::{AgentSessionId, CommandId, MessageId, ToolCallId, TurnId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A command with its id. A repeat of the id is answered with the stored acknowledgement (ruling 10).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedCommand {
    /// The id that every acknowledgement names.
    pub command_id: CommandId,
    /// Counts how often it was sent, from 1.
    pub attempt: u8,
    /// What is asked.
    #[serde(flatten)]
    pub command: Command,
}

/// What is asked of a sidecar; `type` names it in `snake_case`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Command {
    /// Start the agent. Nothing else does, so that two launches of a run never make two agents (ruling 7).
    Begin(Box<Begin>),
    /// Give the agent a message.
    SteeringMessage {
        /// The message.
        message_id: MessageId,
        /// Its text.
        content: String,
        /// Now, or after the current turn.
        priority: MessagePriority,
        /// Who says it.
        source: MessageSource,
        /// The turn that it is meant for; if that is over, it is refused with `turn-over` (ruling 30).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_turn_id: Option<TurnId>,
    },
    /// End the current turn.
    Interrupt {},
    /// Suspend.
    Pause {},
    /// Go on after `pause`.
    Resume {},
    /// End the agent and the sidecar.
    Stop {},
    /// Take a new configuration.
    ReloadConfig {
        /// The whole new configuration.
        config: Box<AgentSessionConfig>,
    },
    /// Change how the agent works, between its turns or within one (S1 5).
    Adjust {
        /// What changes.
        adjustment: Adjustment,
    },
    /// The owner answered a question of the agent.
    Answer {
        /// The request: the id of the tool call that asked.
        request_id: ToolCallId,
        /// One answer a question.
        answers: Vec<Answer>,
    },
    /// The owner decided on a plan.
    PlanDecision {
        /// The request: the id of the tool call that showed the plan.
        request_id: ToolCallId,
        /// Whether the agent may proceed.
        approved: bool,
        /// What to change, when it may not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// Check the criteria of a session that goes on by itself, in its working directory (ruling 36). The sidecar does it,
    /// with or without an agent; a message, a request and the next validation break it off.
    RunValidation {
        /// What is checked, in order.
        criteria: Vec<ValidationCriterion>,
        /// Seconds that all of them together may take.
        timeout_seconds: u64,
    },
    /// Send spooled envelopes again (ruling 9).
    Replay {
        /// The first sequence.
        from_sequence: u64,
        /// The last one.
        to_sequence: u64,
    },
}

impl Command {
    /// The command's name on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "begin",
            Self::SteeringMessage { .. } => "steering_message",
            Self::Interrupt {} => "interrupt",
            Self::Pause {} => "pause",
            Self::Resume {} => "resume",
            Self::Stop {} => "stop",
            Self::ReloadConfig { .. } => "reload_config",
            Self::Adjust { .. } => "adjust",
            Self::Answer { .. } => "answer",
            Self::PlanDecision { .. } => "plan_decision",
            Self::RunValidation { .. } => "run_validation",
            Self::Replay { .. } => "replay",
        }
    }
}

/// What the agent starts with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Begin {
    /// The configuration.
    pub config: AgentSessionConfig,
    /// Whether an earlier run's conversation is taken up.
    pub resume_conversation: bool,
    /// What opens the first turn. None: wait for a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The most dollars that this run may spend, as a decimal string: what was left when it began. None: no cap
    /// (ruling 32). [`Adjustment::SetAllowance`] changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_usd: Option<String>,
}

/// The composed configuration of a session (S0 8.11).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSessionConfig {
    /// The model: the one that its owner chose last.
    pub model_id: String,
    /// How deeply it thinks, where its owner chose that; none: the adapter's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// System prompt of template and skills.
    pub composed_system_prompt: String,
    /// Tools that the agent may use; empty: the adapter's own default.
    pub allowed_tools: Vec<String>,
    /// Tools of MCP servers that its template and skills bring along, each name once.
    #[serde(default)]
    pub custom_tools: Vec<McpToolDefinition>,
    /// Subagents that its skills bring along, each name once.
    #[serde(default)]
    pub sub_agents: Vec<SkillSubAgentDefinition>,
    /// Where it runs.
    pub working_directory: String,
    /// What it is to do.
    pub objective: String,
    /// Whether leaving plan mode waits for the owner.
    pub plan_approval_required: bool,
    /// What the context window may fill to before the sidecar warns, in percent.
    pub context_warn_at_percent: u8,
    /// What is done when the context window fills up (ruling 35).
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// What the session before it in its chain left (ruling 34); none where it is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// What the adapter alone understands: for `script`, the run to play.
    #[serde(default)]
    pub adapter_options: Value,
}

/// What the session before left to this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// The session before it.
    pub from_session_id: AgentSessionId,
    /// Its own place in the chain; the first is 1.
    pub position: u32,
    /// What was done and what remains.
    #[serde(flatten)]
    pub document: HandoffDocument,
}
