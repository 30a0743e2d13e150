//! Facts: what a sidecar can report about its agent. The anti-corruption layer translates raw events into facts (S0 8.3). A fact of
//! the current run is never discarded (decision 17).

use serde::{Deserialize, Serialize};

use crate::decision::TimeoutTerms;
use crate::escalation::ToolApproval;
use crate::output::SessionOutput;
use crate::session::LifecycleCommand;
use crate::text::PlanContent;
use crate::value::{
    AgentConversations, AgentSettings, Capabilities, ContextWindowSnapshot, CriterionResult,
    DeliverableCounts, HandoffDocument, OptionProposal, Question, SessionOutcome, SessionTask, TokenUsage,
};
use crate::{CommandId, MessageId, MeterId, SubAgentId, Timestamp, ToolCallId, TurnId, Usd};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentFact {
    SidecarReady(Capabilities),
    TurnStarted {
        turn: TurnId,
        /// The message that started it.
        message: Option<MessageId>,
    },
    /// A turn ended, with all of its subagents.
    TurnCompleted {
        turn: TurnId,
        output: Option<SessionOutput>,
        /// How it ended (S4).
        #[serde(default)]
        outcome: SessionOutcome,
    },
    SessionEnded {
        is_error: bool,
        /// The reason in the agent's own words.
        reason: String,
        /// Explanation for a person.
        message: Option<String>,
        output: Option<SessionOutput>,
    },
    QuestionAsked {
        /// Id of the request: the tool call that asked.
        request: ToolCallId,
        questions: Vec<Question>,
        /// The tool call that the question asks permission for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ToolApproval>,
        /// The options that the agent proposes with the question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<OptionProposal>,
        /// The timeout of a request in a project. The intake adds it, because it has to be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<Box<TimeoutTerms>>,
    },
    /// The agent's model and thinking level (S1 5).
    #[serde(rename = "SettingsTold")]
    SettingsReported(AgentSettings),
    /// The branches of the agent's conversations, and the labels of its turns (S1 5, 9).
    #[serde(rename = "ConversationsTold")]
    ConversationsReported(AgentConversations),
    /// The agent waits before a model call that could exceed the remaining budget (decision 32).
    BudgetExceeded {
        /// Highest possible cost of the call, if known.
        needed: Option<Usd>,
        /// Rest of the run's allowance.
        #[serde(default)]
        left: Option<Usd>,
    },
    /// The agent's subscription quota is used up, and it waits (decision 39).
    QuotaExceeded {
        message: Option<String>,
        /// When the quota resets, if the runtime reported it.
        reset_at: Option<Timestamp>,
    },
    /// The model of the agent does not answer, and the agent waits.
    ModelUnavailable {
        message: Option<String>,
        /// The time of the next attempt, if the agent reported it.
        retry_at: Option<Timestamp>,
    },
    /// Counts of the deliverables by status (S4).
    #[serde(rename = "DeliverablesTold")]
    DeliverablesReported(DeliverableCounts),
    PlanModeEntered,
    PlanShown {
        /// Id of the request: the tool call that submitted it.
        request: ToolCallId,
        /// Text of the plan, if the runtime provided it.
        content: Option<PlanContent>,
        /// Like that of a question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<Box<TimeoutTerms>>,
    },
    TasksReplaced(Vec<SessionTask>),
    Used(UsageReport),
    /// Context usage crossed the warning threshold.
    ContextNearingLimit {
        usage_percent: String,
    },
    ContextExhausted,
    /// The agent wrote the handoff document for the continuation.
    HandoffWritten(Box<HandoffDocument>),
    /// The agent hands over before its context window is full.
    HandedOver {
        reason: String,
    },
    /// The agent or a subagent sent a message.
    Said {
        subagent: Option<SubAgentId>,
    },
    ToolStarted {
        call: ToolCallId,
        name: String,
        /// The subagent that made the call.
        subagent: Option<SubAgentId>,
    },
    ToolEnded {
        call: ToolCallId,
        is_error: bool,
        /// The subagent that made the call.
        subagent: Option<SubAgentId>,
    },
    SubAgentStarted {
        subagent: SubAgentId,
        model: Option<String>,
        objective: String,
        /// The tool call that started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<ToolCallId>,
    },
    SubAgentEnded {
        subagent: SubAgentId,
        /// The reason, if it failed.
        failure: Option<String>,
    },
    CommandReceived(CommandId),
    CommandDone(LifecycleCommand, CommandId),
    CommandRefused {
        command: CommandId,
        /// Stable code of the reason.
        code: String,
        /// Explanation for a person.
        message: String,
    },
    /// The sidecar checked the criteria. If it stopped early, results are missing.
    Validated {
        /// The command that requested it.
        command: CommandId,
        /// Results of the criteria, in order.
        results: Vec<CriterionResult>,
    },
    /// The sidecar is about to pass a message to the agent.
    MessageInjecting(MessageId),
    MessageInjected(MessageId),
    /// The process of a paused agent ended within a turn (decision 22). The control plane concludes this itself.
    TurnLost,
    /// An event that only adds a line to the activity stream.
    Noted,
}

impl AgentFact {
    /// Name of the fact in activity lines.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SidecarReady(_) => "The sidecar's readiness",
            Self::TurnStarted { .. } => "The start of a turn",
            Self::TurnCompleted { .. } => "The end of a turn",
            Self::SessionEnded { .. } => "The end of the agent's conversation",
            Self::QuestionAsked { .. } => "A question",
            Self::SettingsReported(_) => "The agent's settings",
            Self::ConversationsReported(_) => "The agent's conversations",
            Self::BudgetExceeded { .. } => "A call beyond the budget",
            Self::QuotaExceeded { .. } => "The end of the quota",
            Self::ModelUnavailable { .. } => "An unavailable model",
            Self::DeliverablesReported(_) => "The deliverables",
            Self::PlanModeEntered => "Entering plan mode",
            Self::PlanShown { .. } => "A plan",
            Self::TasksReplaced(_) => "A task list",
            Self::Used(_) => "Usage",
            Self::ContextNearingLimit { .. } => "A warning about the context window",
            Self::ContextExhausted => "The full context window",
            Self::HandoffWritten(_) => "A handoff document",
            Self::HandedOver { .. } => "A handoff",
            Self::Said { .. } => "A message",
            Self::ToolStarted { .. } => "A tool call",
            Self::ToolEnded { .. } => "A tool's result",
            Self::SubAgentStarted { .. } => "The start of a subagent",
            Self::SubAgentEnded { .. } => "The end of a subagent",
            Self::CommandReceived(_) | Self::CommandDone(..) | Self::CommandRefused { .. } => {
                "An acknowledgement"
            }
            Self::Validated { .. } => "The result of a validation",
            Self::MessageInjecting(_) | Self::MessageInjected(_) => "The delivery of a message",
            Self::TurnLost => "The loss of a turn",
            Self::Noted => "A notice",
        }
    }

    /// Output and outcome of a fact that ends a turn.
    pub(crate) fn end_of_turn(self) -> (Option<SessionOutput>, SessionOutcome) {
        match self {
            Self::TurnCompleted { output, outcome, .. } => (output, outcome),
            Self::SessionEnded { output, is_error: false, .. } => (output, SessionOutcome::Completed),
            _ => (None, SessionOutcome::Completed),
        }
    }

    /// Whether the fact changes the status. Such facts are deferred while a request is pending (decision 17).
    pub const fn waits_for_requests(&self) -> bool {
        matches!(
            self,
            Self::TurnStarted { .. }
                | Self::TurnCompleted { .. }
                | Self::SessionEnded { .. }
                | Self::QuestionAsked { .. }
                | Self::PlanShown { .. }
                | Self::ContextExhausted
                | Self::HandedOver { .. }
        )
    }
}

/// Running totals of one meter and model (decision 31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    pub meter: MeterId,
    pub model: String,
    /// The subagent, if it has a separate meter.
    pub subagent: Option<SubAgentId>,
    pub cost: Usd,
    pub tokens: TokenUsage,
    /// Current state of the context window.
    pub context_window: Option<ContextWindowSnapshot>,
}

/// The last totals of one meter and model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeterTotals {
    pub cost: Usd,
    pub tokens: TokenUsage,
}

impl MeterTotals {
    /// Records new totals and returns the increase: max(0, total − last) for each part (decision 31).
    #[must_use]
    pub fn advance(&mut self, cost: Usd, tokens: TokenUsage) -> Self {
        let added = Self { cost: cost.excess_over(self.cost), tokens: tokens.increment_since(self.tokens) };
        self.cost = self.cost.max(cost);
        self.tokens = self.tokens.max(tokens);
        added
    }
}
