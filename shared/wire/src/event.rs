//! Raw events: what a sidecar tells the control plane (S0 8.2, 8.3).
//!
//! The first group is S0's own list. The second is what S0 needs without listing it: readiness, turns, the
//! task list as one snapshot, the start and end of subagents, log chunks, heartbeats, refusals, and the two
//! steps of an acknowledgement (ruling 11).

use pilothouse_domain::value::{
    Capabilities, CriterionResult, DeliverableState, Question, SessionOutcome, SessionOutput,
    SessionTaskStatus, ThinkingLevel, TokenUsage,
};
use pilothouse_domain::{CommandId, MessageId, SubAgentId, Timestamp, ToolCallId, TurnId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::launch::RunExit;

/// One raw event; `type` names it in `snake_case`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum RawEvent {
    /// A block of the agent's own message: text, thinking, or the call of a tool.
    AssistantMessage {
        /// The block.
        content: AssistantContent,
        /// The turn that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<TurnId>,
    },
    /// The result of a tool call, of the agent or of a subagent.
    ToolResult {
        /// The call.
        tool_call_id: ToolCallId,
        /// What the tool said; text, or JSON as the runtime gave it.
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
        /// The subagent.
        subagent_id: SubAgentId,
        /// The block.
        content: AssistantContent,
    },
    /// Running totals of one meter and model, and the context window now (ruling 31).
    UsageUpdate(UsageUpdate),
    /// The context window passed the warning threshold.
    ContextNearingLimit {
        /// How full it is, in percent, as a decimal string.
        usage_percent: String,
    },
    /// The context window is full.
    ContextExhausted {},
    /// What the next session of the chain needs to know.
    HandoffDocument(HandoffDocument),
    /// The agent hands its work on although it has room left.
    VoluntaryHandoff {
        /// Why.
        reason: String,
        /// What was done and what remains.
        #[serde(flatten)]
        document: HandoffDocument,
    },
    /// The agent's conversation is over.
    SessionEnd(SessionEnd),
    /// Step of the acknowledgement of `interrupt`.
    InterruptAck(Ack),
    /// Step of the acknowledgement of `pause`.
    PauseAck(Ack),
    /// Step of the acknowledgement of `resume`.
    ResumeAck(Ack),
    /// Step of the acknowledgement of `stop`.
    StopAck(Ack),
    /// Step of the acknowledgement of `reload_config`.
    ReloadConfigAck(Ack),
    /// Step of the acknowledgement of `adjust`.
    AdjustAck(Ack),

    /// The first event of a run: the sidecar is up and waits for `begin`. Told again when what its agent can do is known.
    SidecarReady {
        /// The sidecar's version.
        sidecar_version: String,
        /// The adapter that it runs.
        adapter: String,
        /// What the adapter can do; told again, what its agent can.
        capabilities: Capabilities,
    },
    /// Step of the acknowledgement of `begin`.
    BeginAck(Ack),
    /// Step of the acknowledgement of `answer` or `plan_decision`.
    AnswerAck(Ack),
    /// The sidecar has `run_validation`; what came of it is told by `validation_result`.
    ValidationAck(Ack),
    /// What came of `run_validation` (ruling 36).
    ValidationResult {
        /// The command that ordered it.
        command_id: CommandId,
        /// How each criterion did, in order; fewer than there are when it was broken off.
        results: Vec<CriterionResult>,
    },
    /// How far a `steering_message` got.
    MessageAck {
        /// The command that carried it.
        command_id: CommandId,
        /// The message.
        message_id: MessageId,
        /// How far it got.
        phase: MessagePhase,
    },
    /// The sidecar will not carry out a command.
    CommandRefused {
        /// The command.
        command_id: CommandId,
        /// A stable code: `turn-over`, `not-supported`, `no-agent`, `invalid`.
        code: String,
        /// A sentence for a person.
        message: String,
    },
    /// A turn began.
    TurnStarted {
        /// The turn.
        turn_id: TurnId,
        /// The message that began it; none for the first turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
    },
    /// A turn and all its subagents ended (ruling 18).
    TurnCompleted {
        /// The turn.
        turn_id: TurnId,
        /// What it produced, if the agent said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<SessionOutput>,
        /// How it ended (S4); anything but `completed` says why the agent did not go on (ruling 39).
        #[serde(default, skip_serializing_if = "SessionOutcome::is_completed")]
        outcome: SessionOutcome,
    },
    /// What the agent works with now; told when it begins and whenever it changes (S1 5).
    AgentSettings {
        /// The model.
        model_id: String,
        /// How deeply it thinks, where the adapter knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_level: Option<ThinkingLevel>,
        /// The models that it can be set to, in the order in which they are cycled.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        available_models: Vec<String>,
    },
    /// The agent waits for its owner without a tool of its own that asks: for the permission to use one, or for input of
    /// a server. Answered by `answer`; over with the call's `tool_result`, or with its turn (ruling 26).
    QuestionAsked {
        /// The request: the tool call that waits.
        request_id: ToolCallId,
        /// What is asked.
        questions: Vec<Question>,
    },
    /// The next model call could pass what the run may spend: the agent holds before it (ruling 32).
    BudgetExceeded {
        /// The worst case of the call, in dollars as a decimal string.
        needed_usd: String,
        /// What is left, in dollars as a decimal string.
        left_usd: String,
    },
    /// The plan that pays for the agent is used up; it holds until `reset_at` (S4, ruling 39).
    QuotaExceeded {
        /// The runtime's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// When it can go on, where the runtime said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset_at: Option<Timestamp>,
    },
    /// All deliverables of the working directory, whenever one changes (S4).
    Deliverables {
        /// In the order in which they were created.
        deliverables: Vec<RawDeliverable>,
    },
    /// The whole task list of the agent, folded by the sidecar (ruling 27).
    TaskList {
        /// The tasks in order.
        tasks: Vec<RawTask>,
    },
    /// A subagent began.
    SubagentStarted {
        /// The subagent.
        subagent_id: SubAgentId,
        /// The tool call that began it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId>,
        /// Its model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_id: Option<String>,
        /// What it is to do.
        objective: String,
    },
    /// A subagent ended.
    SubagentEnded {
        /// The subagent.
        subagent_id: SubAgentId,
        /// Whether it failed, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
    /// A piece of the agent's or the sidecar's log.
    LogChunk {
        /// Where it comes from: `agent`, `sidecar`, or a stream's name.
        stream: String,
        /// The text.
        content: String,
    },
    /// The agent speaks of itself: a retry, a fallback, a denied permission. For the activity stream alone.
    Notice {
        /// A short stable name: `api_retry`, `model_fallback`, `permission_denied`, …
        name: String,
        /// A sentence for a person.
        summary: String,
        /// More of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<Value>,
    },
    /// The run is alive. Has no sequence and leaves no activity (ruling 9).
    Heartbeat {},
    /// The process of the run is gone and everything in its spool was sent before this. The runtime sends it,
    /// without a sequence, signed with its own key.
    RunExited(RunExit),
}

impl RawEvent {
    /// The event's name on the wire.
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
            Self::QuestionAsked { .. } => "question_asked",
            Self::BudgetExceeded { .. } => "budget_exceeded",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::Deliverables { .. } => "deliverables",
            Self::TaskList { .. } => "task_list",
            Self::SubagentStarted { .. } => "subagent_started",
            Self::SubagentEnded { .. } => "subagent_ended",
            Self::LogChunk { .. } => "log_chunk",
            Self::Notice { .. } => "notice",
            Self::Heartbeat {} => "heartbeat",
            Self::RunExited(_) => "run_exited",
        }
    }

    /// Whether the event takes a sequence number. Heartbeats and the runtime's own events do not.
    pub const fn is_sequenced(&self) -> bool {
        !matches!(self, Self::Heartbeat {} | Self::RunExited(_))
    }
}

/// Text, or a reference to text too large for a message (ruling 6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    /// The text itself.
    Text(String),
    /// The text stands in the blob store; `head` is its beginning.
    Blob(BlobRef),
    /// Anything else that a runtime gave: blocks, objects, numbers.
    Json(Value),
}

impl Content {
    /// The text as far as it is here: the whole, or the beginning of what stands in a blob.
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

/// Where a large body stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlobRef {
    /// Its key in the blob store.
    pub blob: String,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of it, in hexadecimal.
    pub sha256: String,
    /// Its beginning.
    pub head: String,
}

/// One block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AssistantContent {
    /// What the agent says.
    Text {
        /// The text.
        text: Content,
    },
    /// What it thinks aloud.
    Thinking {
        /// The text.
        text: Content,
    },
    /// It calls a tool.
    ToolUse {
        /// The call; its result names it.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its input as JSON.
        input: Value,
    },
}

/// Running totals of one meter (ruling 31): they never go down, over resume and fork too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageUpdate {
    /// The meter: the agent's conversation.
    pub meter_id: pilothouse_domain::MeterId,
    /// The model that the totals are of.
    pub model_id: String,
    /// The subagent, when it has its own meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<SubAgentId>,
    /// Dollars so far, as a decimal string.
    pub cost_usd: String,
    /// Tokens so far.
    pub token_usage: TokenUsage,
    /// The context window now; absent when the runtime did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<RawContextWindow>,
}

/// The context window as the runtime reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawContextWindow {
    /// Tokens in it.
    #[serde(flatten)]
    pub usage: TokenUsage,
    /// The most that it takes.
    pub model_context_limit: u64,
}

/// A task as the agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawTask {
    /// The agent's id of it, or its position.
    pub id: String,
    /// What is to be done.
    pub subject: String,
    /// Where it stands.
    pub status: SessionTaskStatus,
    /// What to show while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
}

/// A deliverable as its status file has it (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawDeliverable {
    /// Its id, such as `DL-001`.
    pub id: String,
    /// What it is.
    pub description: String,
    /// What must hold for it to be passed.
    pub acceptance_criteria: Vec<String>,
    /// Where it stands.
    pub status: DeliverableState,
}

/// What one session leaves to the next (S0 8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffDocument {
    /// What was done.
    pub summary: String,
    /// What remains.
    pub remaining_work: String,
    /// What must not be forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_decisions: Option<String>,
}

/// How the agent's conversation ended (ruling 19).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnd {
    /// Whether it ended in an error. A runtime's `success` with an error flag is one.
    pub is_error: bool,
    /// The agent's own word for it: `success`, `error_max_turns`, …
    pub reason: String,
    /// A sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it produced, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<SessionOutput>,
}

/// A step of an acknowledgement (ruling 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// The command that is acknowledged.
    pub command_id: CommandId,
    /// How far it got.
    pub step: AckStep,
}

/// How far a command got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckStep {
    /// The sidecar has it in its spool.
    Received,
    /// It is done.
    Done,
}

/// How far a message got. A crash between `injecting` and `injected` leaves it uncertain (ruling 30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessagePhase {
    /// The sidecar has it in its spool.
    Received,
    /// It is about to be given to the agent.
    Injecting,
    /// The agent has it.
    Injected,
}
