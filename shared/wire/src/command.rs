//! Commands: requests of the control plane to a sidecar (S0 8.2, 8.3).

use pilothouse_domain::project_agent::{ArtifactFiles, DelegationPolicy, SessionPolicy};
use pilothouse_domain::session::AgentOptions;
use pilothouse_domain::value::{
    Adjustment, Answer, HandoffDocument, McpToolDefinition, MessageImage, MessagePriority, MessageSource,
    SkillSubAgentDefinition, ThinkingLevel, ValidationCriterion,
};
use pilothouse_domain::{AgentSessionId, CommandId, MessageId, ToolCallId, TurnId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A command with its id. A sidecar answers a repeated id with the acknowledgement that it stored (decision 10).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedCommand {
    /// Id of the command; every acknowledgement names it.
    pub command_id: CommandId,
    /// Number of this attempt to send the command, from 1.
    pub attempt: u8,
    /// The command itself.
    #[serde(flatten)]
    pub command: Command,
}

/// A command to a sidecar; `type` names it in `snake_case`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Command {
    /// Start the agent. Only this command does, so that two launches of a run never start two agents (decision 7).
    Begin(Box<Begin>),
    /// Pass a message to the agent.
    SteeringMessage {
        /// Id of the message.
        message_id: MessageId,
        /// Text of the message.
        content: String,
        /// Images of the message. The sidecar requests their bytes when it passes the message to the agent.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<MessageImage>,
        /// Whether to deliver the message within the running turn or after it.
        priority: MessagePriority,
        /// Sender of the message.
        source: MessageSource,
        /// The turn that the message is meant for. If that turn is over, the message is refused with `turn-over` (decision 30).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_turn_id: Option<TurnId>,
    },
    /// End the running turn.
    Interrupt {},
    /// Suspend the agent within its turn.
    Pause {},
    /// Continue after `pause`.
    Resume {},
    /// End the agent and the sidecar.
    Stop {},
    /// Load a new configuration.
    ReloadConfig {
        /// The complete new configuration.
        config: Box<AgentSessionConfig>,
    },
    /// Change a running agent, between or within its turns (S1 5).
    Adjust {
        /// The change.
        adjustment: Adjustment,
    },
    /// The owner answered the agent's questions.
    Answer {
        /// Id of the request: the tool call that asked.
        request_id: ToolCallId,
        /// One answer for each question.
        answers: Vec<Answer>,
        /// Input of the tool call that the answers allow, if the owner changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        modified_input: Option<Box<Value>>,
    },
    /// The owner decided on a plan.
    PlanDecision {
        /// Id of the request: the tool call that submitted the plan.
        request_id: ToolCallId,
        /// Whether the agent may proceed.
        approved: bool,
        /// What to change, if the plan was rejected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// Check the criteria of a session with auto-continue in its working directory (decision 36). The sidecar does this with or
    /// without an agent. A message, a request or another validation stops the check early.
    RunValidation {
        /// Criteria to check, in order.
        criteria: Vec<ValidationCriterion>,
        /// Time limit for all criteria together, in seconds.
        timeout_seconds: u64,
    },
    /// Send spooled envelopes again (decision 9).
    Replay {
        /// First sequence to send.
        from_sequence: u64,
        /// Last sequence to send.
        to_sequence: u64,
    },
}

impl Command {
    /// Name of the command on the wire.
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

/// Parameters for starting the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Begin {
    /// Configuration of the agent.
    pub config: AgentSessionConfig,
    /// Whether to continue the conversation of an earlier run.
    pub resume_conversation: bool,
    /// Prompt of the first turn. If absent, the agent waits for a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Images of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImage>,
    /// Total in US dollars that this run may spend over its life, as a decimal string; absent if there is no cap (decision 32).
    /// [`Adjustment::SetAllowance`] changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_usd: Option<String>,
    /// Whether the agent may work although it does not report its cost. If not, such an agent waits before its first model call and
    /// reports the capability `unmetered`; a `resume` is the owner's permission (decision 32).
    #[serde(default)]
    pub allow_unmetered: bool,
}

/// Composed configuration of a session's agent (S0 8.11).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSessionConfig {
    /// Model that the owner chose last.
    pub model_id: String,
    /// Thinking level that the owner chose; absent for the adapter's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// System prompt of template and skills.
    pub composed_system_prompt: String,
    /// Names of tools that the agent may use. If empty, the adapter's default tools are allowed.
    pub allowed_tools: Vec<String>,
    /// Tools of MCP servers from template and skills, with unique names.
    #[serde(default)]
    pub custom_tools: Vec<McpToolDefinition>,
    /// Subagents from skills, with unique names.
    #[serde(default)]
    pub sub_agents: Vec<SkillSubAgentDefinition>,
    /// Absolute path of the directory where the agent runs.
    pub working_directory: String,
    /// Objective of the agent.
    pub objective: String,
    /// Options that the sidecar applies to the agent.
    #[serde(flatten)]
    pub options: AgentOptions,
    /// Policies of the brief that the sidecar applies to the agent.
    #[serde(flatten)]
    pub policies: BriefPolicies,
    /// Handoff from the previous session of the chain (decision 34); absent for the first session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// Options that only the adapter interprets; for `script`, the script to play.
    #[serde(default)]
    pub adapter_options: Value,
}

/// Policies of an agent's brief; a session without a brief has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BriefPolicies {
    /// Which work the agent may delegate; absent if the adapter decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_policy: Option<DelegationPolicy>,
    /// Limits of the agent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_policy: Option<SessionPolicy>,
    /// Files that become artifacts when the agent writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifact_files: Vec<ArtifactFiles>,
}

/// Handoff from the previous session of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// The previous session.
    pub from_session_id: AgentSessionId,
    /// Position of the receiving session in the chain, from 1.
    pub position: u32,
    /// Document of the previous session.
    #[serde(flatten)]
    pub document: HandoffDocument,
}
