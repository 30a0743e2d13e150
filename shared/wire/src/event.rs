//! Raw events: reports of a sidecar to the control plane (S0 8.2, 8.3).
//!
//! The first group is S0's list. The second group contains events that S0 needs but does not list: readiness, turns, task list
//! snapshots, subagents, log chunks, heartbeats, refusals, and the two steps of an acknowledgement (decision 11).

use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::value::{
    AgentConversations, Capabilities, CriterionResult, DeliverableState, OptionProposal, Question,
    SessionOutcome, SessionTaskStatus, ThinkingLevel, TokenUsage,
};
use pilothouse_domain::{CommandId, MessageId, SubAgentId, Timestamp, ToolCallId, TurnId, VerdictId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::launch::RunExit;

/// A raw event; `type` names it in `snake_case`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum RawEvent {
    /// A block of the agent's message: text, thinking, or a tool call.
    AssistantMessage {
        /// Content of the block.
        content: AssistantContent,
        /// The turn that the block belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<TurnId>,
    },
    /// The result of a tool call of the agent or a subagent.
    ToolResult {
        /// Id of the tool call.
        tool_call_id: ToolCallId,
        /// Output of the tool: text, or JSON as the runtime reported it.
        content: Content,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
        /// The subagent that made the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subagent_id: Option<SubAgentId>,
    },
    /// A block of a subagent's message.
    SubagentMessage {
        /// Id of the subagent.
        subagent_id: SubAgentId,
        /// Content of the block.
        content: AssistantContent,
    },
    /// Running totals of one meter and model, and the current context window (decision 31).
    UsageUpdate(UsageUpdate),
    /// Context usage crossed the warning threshold.
    ContextNearingLimit {
        /// Usage in percent, as a decimal string.
        usage_percent: String,
    },
    /// The context window is full.
    ContextExhausted {},
    /// The agent wrote the document for the next session of the chain.
    HandoffDocument(HandoffDocument),
    /// The agent hands over before its context window is full.
    VoluntaryHandoff {
        /// Reason of the agent.
        reason: String,
        /// Document for the next session.
        #[serde(flatten)]
        document: HandoffDocument,
    },
    /// The agent's conversation ended.
    SessionEnd(SessionEnd),
    /// Acknowledgement of `interrupt`.
    InterruptAck(Ack),
    /// Acknowledgement of `pause`.
    PauseAck(Ack),
    /// Acknowledgement of `resume`.
    ResumeAck(Ack),
    /// Acknowledgement of `stop`.
    StopAck(Ack),
    /// Acknowledgement of `reload_config`.
    ReloadConfigAck(Ack),
    /// Acknowledgement of `adjust`.
    AdjustAck(Ack),

    /// The first event of a run: the sidecar is ready and waits for `begin`. Sent again when the capabilities of the actual agent
    /// are known.
    SidecarReady {
        /// Version of the sidecar.
        sidecar_version: String,
        /// Name of the adapter.
        adapter: String,
        /// Capabilities of the adapter; when sent again, those of its agent.
        capabilities: Capabilities,
    },
    /// Acknowledgement of `begin`.
    BeginAck(Ack),
    /// Acknowledgement of `answer` or `plan_decision`.
    AnswerAck(Ack),
    /// The sidecar received `run_validation`. The result follows in `validation_result`.
    ValidationAck(Ack),
    /// Result of `run_validation` (decision 36).
    ValidationResult {
        /// The command that requested the validation.
        command_id: CommandId,
        /// Results of the criteria, in order; incomplete if the validation stopped early.
        results: Vec<CriterionResult>,
    },
    /// Delivery progress of a `steering_message`.
    MessageAck {
        /// The command with the message.
        command_id: CommandId,
        /// Id of the message.
        message_id: MessageId,
        /// Current phase.
        phase: MessagePhase,
    },
    /// The sidecar refused a command.
    CommandRefused {
        /// The refused command.
        command_id: CommandId,
        /// Stable code: `turn-over`, `delivery-uncertain`, `not-supported`, `no-agent` or `invalid`.
        code: String,
        /// Explanation for a person.
        message: String,
    },
    /// A turn started.
    TurnStarted {
        /// Id of the turn.
        turn_id: TurnId,
        /// The message that started the turn; absent for the first turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
    },
    /// A turn ended, with all of its subagents (decision 18).
    TurnCompleted {
        /// Id of the turn.
        turn_id: TurnId,
        /// Output of the turn, if the agent reported any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<SessionOutput>,
        /// How the turn ended (S4, decision 39).
        #[serde(default, skip_serializing_if = "SessionOutcome::is_completed")]
        outcome: SessionOutcome,
    },
    /// Model and thinking level of the agent. Sent when the agent starts and whenever they change (S1 5).
    AgentSettings {
        /// Current model.
        model_id: String,
        /// Current thinking level, if the adapter knows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_level: Option<ThinkingLevel>,
        /// Models that the agent can switch to, in cycling order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        available_models: Vec<String>,
    },
    /// All branches of the agent's conversations and all labels (S1 5, 9). Sent after each change, once there is more than one branch or
    /// a label.
    Conversations(AgentConversations),
    /// The agent waits for the owner outside of a question tool: for permission to use a tool, or for input to a server. Answered
    /// by `answer`; ends with the call's `tool_result` or with its turn (decision 26).
    QuestionAsked {
        /// Id of the request: the tool call that waits.
        request_id: ToolCallId,
        /// Questions to the owner.
        questions: Vec<Question>,
        /// The tool call that the question asks permission for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<Box<PermissionRequest>>,
        /// The options that the agent proposes with its only question (S2 `OptionDecisionEvent`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<Box<OptionProposal>>,
    },
    /// The agent waits because its next model call could exceed the allowance of the run (decision 32).
    BudgetExceeded {
        /// Highest possible cost of the call in US dollars, as a decimal string.
        needed_usd: String,
        /// Rest of the allowance in US dollars, as a decimal string.
        left_usd: String,
    },
    /// The agent's subscription quota is used up; it waits until `reset_at` (S4, decision 39).
    QuotaExceeded {
        /// Message of the runtime.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// When the quota resets, if the runtime reported it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset_at: Option<Timestamp>,
    },
    /// The model of the agent does not answer, and the agent has given up its retries; it waits until it is resumed.
    ModelUnavailable {
        /// Message of the provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// When to try again, if the agent can tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// All deliverables of the working directory. Sent whenever one changes (S4).
    Deliverables {
        /// The deliverables in the order of their creation.
        deliverables: Vec<RawDeliverable>,
    },
    /// The complete task list of the agent; the sidecar merges incremental updates (decision 27).
    TaskList {
        /// The tasks, in order.
        tasks: Vec<RawTask>,
    },
    /// A subagent started.
    SubagentStarted {
        /// Id of the subagent.
        subagent_id: SubAgentId,
        /// The tool call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId>,
        /// Model of the subagent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_id: Option<String>,
        /// Objective of the subagent.
        objective: String,
    },
    /// A subagent ended.
    SubagentEnded {
        /// Id of the subagent.
        subagent_id: SubAgentId,
        /// Reason, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
    /// Part of the agent's or the sidecar's log.
    LogChunk {
        /// Origin of the log: `agent`, `sidecar`, or the name of a stream.
        stream: String,
        /// Text of the log.
        content: String,
    },
    /// Information about the agent itself for the activity stream: a retry, a fallback, a denied permission.
    Notice {
        /// Short stable name: `api_retry`, `model_fallback`, `permission_denied` and others.
        name: String,
        /// Sentence for a person.
        summary: String,
        /// Further details.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<Value>,
    },
    /// The run is alive. Has no sequence and adds no activity (decision 9).
    Heartbeat {
        /// The sidecar's disk is full: the agent waits until there is space.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        disk_full: bool,
    },
    /// The process of the run ended, and everything in its spool was sent before. The runtime sends this event without a sequence,
    /// signed with its own key.
    RunExited(RunExit),
}

impl RawEvent {
    /// Name of the event on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AssistantMessage { .. } => "assistant_message",
            Self::ToolResult { .. } => "tool_result",
            Self::SubagentMessage { .. } => "subagent_message",
            Self::UsageUpdate(_) => "usage_update",
            Self::ContextNearingLimit { .. } => "context_nearing_limit",
            Self::ContextExhausted {} => "context_exhausted",
            Self::HandoffDocument(_) => "handoff_document",
            Self::VoluntaryHandoff { .. } => "voluntary_handoff",
            Self::SessionEnd(_) => "session_end",
            Self::InterruptAck(_) => "interrupt_ack",
            Self::PauseAck(_) => "pause_ack",
            Self::ResumeAck(_) => "resume_ack",
            Self::StopAck(_) => "stop_ack",
            Self::ReloadConfigAck(_) => "reload_config_ack",
            Self::AdjustAck(_) => "adjust_ack",
            Self::SidecarReady { .. } => "sidecar_ready",
            Self::BeginAck(_) => "begin_ack",
            Self::AnswerAck(_) => "answer_ack",
            Self::ValidationAck(_) => "validation_ack",
            Self::ValidationResult { .. } => "validation_result",
            Self::MessageAck { .. } => "message_ack",
            Self::CommandRefused { .. } => "command_refused",
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnCompleted { .. } => "turn_completed",
            Self::AgentSettings { .. } => "agent_settings",
            Self::Conversations(_) => "conversations",
            Self::QuestionAsked { .. } => "question_asked",
            Self::BudgetExceeded { .. } => "budget_exceeded",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::ModelUnavailable { .. } => "model_unavailable",
            Self::Deliverables { .. } => "deliverables",
            Self::TaskList { .. } => "task_list",
            Self::SubagentStarted { .. } => "subagent_started",
            Self::SubagentEnded { .. } => "subagent_ended",
            Self::LogChunk { .. } => "log_chunk",
            Self::Notice { .. } => "notice",
            Self::Heartbeat { .. } => "heartbeat",
            Self::RunExited(_) => "run_exited",
        }
    }
}

/// A tool call that needs the owner's permission. Two answers of its question allow and deny it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    /// Name of the tool.
    pub tool_name: String,
    /// Input of the tool.
    pub input: Value,
    /// SHA-256 of the blob with the whole input as JSON, if `input` is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_blob: Option<String>,
    /// The answer that allows this call once.
    pub allow: String,
    /// The answer that denies the call without a reason.
    pub deny: String,
    /// The verdict of the control plane that requires the permission (decision 75).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_id: Option<VerdictId>,
    /// Whether the call can be made with another input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub modifiable: bool,
}

/// Text, or a reference to text that is too large for a message (decision 6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    /// The text itself.
    Text(String),
    /// A reference to the text in the blob store.
    Blob(BlobRef),
    /// Any other value of a runtime: blocks, objects, numbers.
    Json(Value),
}

impl Content {
    /// The text, or the beginning of a text in the blob store.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Text(s) => s.into(),
            Self::Blob(blob) => (&blob.head).into(),
            Self::Json(value) => value.to_string().into(),
        }
    }
}

impl From<String> for Content {
    fn from(s: String) -> Self {
        Self::Text(s)
    }
}

impl From<&str> for Content {
    fn from(s: &str) -> Self {
        Self::Text(s.to_owned())
    }
}

/// Reference to a large text in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlobRef {
    /// Key of the blob.
    pub blob: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Beginning of the text.
    pub head: String,
}

/// A block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AssistantContent {
    /// Text of the agent.
    Text {
        /// The text.
        text: Content,
    },
    /// Thinking of the agent.
    Thinking {
        /// The text.
        text: Content,
    },
    /// A tool call.
    ToolUse {
        /// Id of the call; its result names it.
        tool_call_id: ToolCallId,
        /// Name of the tool.
        #[serde(deserialize_with = "named_tool")]
        tool_name: String,
        /// Input of the tool.
        input: Value,
    },
}

/// A call without the name of its tool is one of the tool `unknown` (decision 6).
fn named_tool<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(if name.trim().is_empty() { "unknown".to_owned() } else { name })
}

/// Running totals of one meter (decision 31). They never decrease, not even after a resume or fork.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageUpdate {
    /// Id of the meter: the agent's conversation.
    pub meter_id: pilothouse_domain::MeterId,
    /// Model that the totals belong to.
    pub model_id: String,
    /// The subagent, if it has a separate meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<SubAgentId>,
    /// Total cost in US dollars, as a decimal string.
    pub cost_usd: String,
    /// Total tokens.
    pub token_usage: TokenUsage,
    /// Current context window; absent if the runtime did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<RawContextWindow>,
}

/// Context window as the runtime reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawContextWindow {
    /// Tokens in the window.
    #[serde(flatten)]
    pub usage: TokenUsage,
    /// Size of the window in tokens.
    pub model_context_limit: u64,
}

/// A task of the agent's task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawTask {
    /// The agent's id for the task, or its position.
    pub id: String,
    /// Title of the task.
    pub subject: String,
    /// Status of the task.
    pub status: SessionTaskStatus,
    /// Label while the task is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
}

/// A deliverable as its status file contains it (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawDeliverable {
    /// Id, such as `DL-001`.
    pub id: String,
    /// Description of the goal.
    pub description: String,
    /// Conditions for the deliverable to be passed.
    pub acceptance_criteria: Vec<String>,
    /// State of the deliverable.
    pub status: DeliverableState,
}

/// Handoff document from one session to the next (S0 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffDocument {
    /// Work that was done.
    pub summary: String,
    /// Work that remains.
    pub remaining_work: String,
    /// Decisions and facts that must not be forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_decisions: Option<String>,
}

/// How the agent's conversation ended (decision 19).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnd {
    /// Whether it ended in an error. A runtime's `success` with an error flag counts as an error.
    pub is_error: bool,
    /// Reason in the agent's own words: `success`, `error_max_turns` and others.
    pub reason: String,
    /// Explanation for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Output, if the agent reported any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<SessionOutput>,
}

/// A step of an acknowledgement (decision 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// The acknowledged command.
    pub command_id: CommandId,
    /// The step that was reached.
    pub step: AckStep,
}

/// Steps of carrying out a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckStep {
    /// The sidecar stored the command in its spool.
    Received,
    /// The command was carried out.
    Done,
}

/// Delivery phases of a message. After a crash between `injecting` and `injected` the delivery is uncertain (decision 30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessagePhase {
    /// The sidecar stored the message in its spool.
    Received,
    /// The message is about to be passed to the agent.
    Injecting,
    /// The agent received the message.
    Injected,
}
