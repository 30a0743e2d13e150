//! Value objects of S0 8.5.

mod activity;
mod adjustment;
mod agent_settings;
mod auto_continue;
mod budget;
mod capabilities;
mod handoff;
mod metrics;
mod outcome;
mod output;
mod plan;
mod question;
mod tasks;
mod tool;

pub use activity::{ActivityItem, ActivityItemType};
pub use adjustment::{Adjustment, CycleDirection, ThinkingLevel};
pub use agent_settings::AgentSettings;
pub use auto_continue::{
    AutoContinueConfig, AutoContinueEnd, CriterionResult, InvalidAutoContinue, ValidationCriterion,
    ValidationType,
};
pub(crate) use budget::SpendEffect;
pub use budget::{InvalidBudget, SessionBudget};
pub use capabilities::Capabilities;
pub use handoff::{HandoffDocument, RecordedHandoff, Remembered};
pub use metrics::{ContextWindowSnapshot, SessionMetrics, TokenUsage};
pub use outcome::{DeliverableCounts, DeliverableState, SessionOutcome};
pub use output::{CommitSha, InvalidCommitSha, SessionOutput};
pub use plan::{PlanStatus, SessionPlan};
pub use question::{Answer, Question, QuestionOption};
pub use tasks::{SessionTask, SessionTaskList, SessionTaskStatus};
pub use tool::{
    InputSchema, InvalidDefinitions, InvalidInputSchema, InvalidServerUri, McpToolDefinition, ServerUri,
    SkillSubAgentDefinition, check_names, check_tools,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done when a context window fills up (ruling 35).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ContextPolicy {
    /// The work is handed to a new session with a document; the agent does not compact by itself.
    #[default]
    Handoff,
    /// The agent compacts its own context (S1 6.1).
    Compact,
}

/// How a session came to run (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExecutionMode {
    /// On its own.
    Standalone,
    /// One of a batch that runs side by side.
    ParallelBatch,
    /// One of a queue that runs one after the other.
    SequentialQueue,
}

/// Why a session failed (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureReason {
    /// Nothing left to spend.
    BudgetExhausted,
    /// The owner rejected the output.
    VerificationFailed,
    /// The agent ended with an error.
    AgentError,
    /// A person cancelled it.
    ManualCancellation,
    /// Nobody answered in time.
    Timeout,
    /// The process or the machine under it failed.
    InfrastructureError,
}

/// Who enqueued a message (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MessageSource {
    /// A person.
    User,
    /// Pilothouse itself.
    System,
    /// Another system.
    Webhook,
}

/// When a message reaches the agent (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MessagePriority {
    /// Into the running turn, as soon as possible.
    Immediate,
    /// After the current turn, one a turn.
    Queued,
}

/// Where a message of the queue stands (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MessageStatus {
    /// Not yet acknowledged by the sidecar.
    Pending,
    /// Acknowledged.
    Delivered,
    /// Cancelled before delivery.
    Cancelled,
}

/// Who speaks in a message of the conversation (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentMessageSource {
    /// A person.
    User,
    /// Pilothouse itself.
    System,
    /// The agent.
    Agent,
    /// One of its subagents.
    SubAgent,
    /// Another system.
    Webhook,
}

/// Where a tool call stands (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ToolCallStatus {
    /// The tool runs.
    Pending,
    /// It gave a result.
    Success,
    /// It gave an error, or its run ended under it (ruling 6).
    Error,
}
