//! Value objects (S0 8.5).

mod activity;
mod adjustment;
mod agent_settings;
mod allowed_models;
mod auto_continue;
mod budget;
mod call_input;
mod capabilities;
mod content_hash;
mod conversations;
mod disk;
mod draft;
mod handoff;
mod image;
mod knowledge_scope;
mod metrics;
mod outcome;
mod plan;
mod project;
mod proposal;
mod question;
mod tasks;
mod token_usage;
mod tool;
mod usage_by_model;

pub use activity::{ActivityItem, ActivityItemType};
pub use adjustment::{Adjustment, ConversationTarget, CycleDirection, ThinkingLevel};
pub use agent_settings::AgentSettings;
pub use allowed_models::{AllowedModels, InvalidModels, ModelField, ModelNotAllowed};
pub use auto_continue::{
    AutoContinueConfig, AutoContinueEnd, CriterionResult, InvalidAutoContinue, ValidationCriterion,
    ValidationType,
};
pub(crate) use budget::SpendEffect;
pub use budget::{InvalidBudget, SessionBudget};
pub use call_input::input_hash;
pub(crate) use call_input::sha256_hex;
pub use capabilities::Capabilities;
pub use content_hash::{ContentHash, InvalidContentHash};
pub use conversations::{AgentConversations, ConversationBranch, TurnLabel};
pub use disk::Disk;
pub use draft::DraftKind;
pub use handoff::{HandoffDocument, HandoffSource, RecordedHandoff};
pub use image::{ImageType, MessageImage};
pub use knowledge_scope::KnowledgeScope;
pub use metrics::{ContextWindowSnapshot, SessionMetrics};
pub use outcome::{DeliverableCounts, DeliverableState, SessionOutcome};
pub use plan::{PlanStatus, SessionPlan};
pub use project::ProjectMembership;
pub use proposal::{OptionAssessment, OptionProposal, ProposedOption, choice, chosen};
pub use question::{Answer, Question, QuestionOption};
pub use tasks::{SessionTask, SessionTaskList, SessionTaskStatus};
pub use token_usage::TokenUsage;
pub use tool::{
    InputSchema, InvalidDefinitions, InvalidInputSchema, InvalidServerUri, McpToolDefinition, ServerUri,
    SkillSubAgentDefinition, check_names, check_tools,
};
pub use usage_by_model::UsageByModel;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Action when the context window fills up (decision 35).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ContextPolicy {
    /// The work is handed over to a new session with a document. The agent does not compact its context.
    #[default]
    Handoff,
    /// The agent compacts its own context (S1 6.1).
    Compact,
}

/// How a session was started (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExecutionMode {
    /// On its own.
    Standalone,
    /// As part of a batch that runs in parallel.
    ParallelBatch,
    /// As part of a queue that runs one session after the other.
    SequentialQueue,
}

/// Why a session failed (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureReason {
    /// The budget is used up.
    BudgetExhausted,
    /// The owner rejected the output.
    VerificationFailed,
    /// The agent ended with an error.
    AgentError,
    /// A person cancelled the session.
    ManualCancellation,
    /// A question or plan was not answered in time.
    Timeout,
    /// The process or its machine failed.
    InfrastructureError,
}

crate::names::named!(FailureReason {
    BudgetExhausted => "BudgetExhausted",
    VerificationFailed => "VerificationFailed",
    AgentError => "AgentError",
    ManualCancellation => "ManualCancellation",
    Timeout => "Timeout",
    InfrastructureError => "InfrastructureError",
});

/// Sender of a message to the agent (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MessageSource {
    /// A person.
    User,
    /// Pilothouse itself.
    System,
    /// An external system.
    Webhook,
    /// Knowledge of the project, which neither starts a turn nor asks for work (decision 89).
    ContextInjection,
}

crate::names::named!(MessageSource {
    User => "User",
    System => "System",
    Webhook => "Webhook",
    ContextInjection => "ContextInjection",
});

/// When a message is delivered to the agent (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MessagePriority {
    /// Within the running turn, as soon as possible.
    Immediate,
    /// After the current turn; one message for each turn.
    Queued,
}

crate::names::named!(MessagePriority {
    Immediate => "Immediate",
    Queued => "Queued",
});

/// Status of a message to the agent (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MessageStatus {
    /// Not acknowledged by the sidecar yet.
    Pending,
    /// The agent received the message.
    Delivered,
    /// Cancelled before delivery.
    Cancelled,
}

/// Author of a message in the conversation (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentMessageSource {
    /// A person.
    User,
    /// Pilothouse itself.
    System,
    /// The agent.
    Agent,
    /// A subagent.
    SubAgent,
    /// An external system.
    Webhook,
    /// Knowledge of the agent's project.
    ContextInjection,
}

/// Status of a tool call (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ToolCallStatus {
    /// The tool is running.
    Pending,
    /// The tool returned a result.
    Success,
    /// The tool returned an error, or the run ended before it returned (decision 6).
    Error,
}
