//! What an agent tells, translated from raw events: the input of the session's side of the anti-corruption layer
//! (S0 8.3). A fact of the current run is never discarded (ruling 17).

use serde::{Deserialize, Serialize};

use crate::session::LifecycleCommand;
use crate::text::PlanContent;
use crate::value::{
    AgentSettings, Capabilities, ContextWindowSnapshot, CriterionResult, DeliverableCounts, HandoffDocument,
    Question, SessionOutcome, SessionOutput, SessionTask, TokenUsage,
};
use crate::{CommandId, MessageId, MeterId, SubAgentId, Timestamp, ToolCallId, TurnId, Usd};

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentFact {
    /// The sidecar is up.
    SidecarReady(Capabilities),
    /// A turn began.
    TurnStarted {
        /// Which.
        turn: TurnId,
        /// The message that began it.
        message: Option<MessageId>,
    },
    /// A turn and all its subagents ended.
    TurnCompleted {
        /// Which.
        turn: TurnId,
        /// What it produced.
        output: Option<SessionOutput>,
        /// How it ended (S4).
        #[serde(default)]
        outcome: SessionOutcome,
    },
    /// The agent's conversation is over.
    SessionEnded {
        /// In an error.
        is_error: bool,
        /// The agent's own word for it.
        reason: String,
        /// A sentence for a person.
        message: Option<String>,
        /// What it produced.
        output: Option<SessionOutput>,
    },
    /// The agent asks.
    QuestionAsked {
        /// The request: the tool call that asked.
        request: ToolCallId,
        /// What.
        questions: Vec<Question>,
    },
    /// What the agent works with now (S1 5).
    SettingsTold(AgentSettings),
    /// The agent holds before a model call that could pass what is left (ruling 32).
    BudgetExceeded {
        /// The worst case of the call, where it could be read.
        needed: Option<Usd>,
    },
    /// The plan that pays for the agent is used up, and it holds (ruling 39).
    QuotaExceeded {
        /// The runtime's own words.
        message: Option<String>,
        /// When it can go on, where the runtime said.
        reset_at: Option<Timestamp>,
    },
    /// Where the deliverables stand (S4).
    DeliverablesTold(DeliverableCounts),
    /// The agent entered plan mode.
    PlanModeEntered,
    /// The agent showed its plan.
    PlanShown {
        /// The request: the tool call that showed it.
        request: ToolCallId,
        /// The document, where the runtime gave one.
        content: Option<PlanContent>,
    },
    /// The agent replaced its task list.
    TasksReplaced(Vec<SessionTask>),
    /// The agent used something.
    Used(UsageReport),
    /// The window passed its warning threshold.
    ContextNearingLimit {
        /// How full, in percent.
        usage_percent: String,
    },
    /// The window is full.
    ContextExhausted,
    /// The document for the continuation.
    HandoffWritten(Box<HandoffDocument>),
    /// The agent hands over by itself.
    HandedOver {
        /// Why.
        reason: String,
    },
    /// The agent or a subagent said something.
    Said {
        /// The subagent.
        subagent: Option<SubAgentId>,
    },
    /// A tool was called.
    ToolStarted {
        /// The call.
        call: ToolCallId,
        /// The tool.
        name: String,
        /// The subagent that called it.
        subagent: Option<SubAgentId>,
    },
    /// A tool gave its result.
    ToolEnded {
        /// The call.
        call: ToolCallId,
        /// Whether it failed.
        is_error: bool,
        /// The subagent that called it.
        subagent: Option<SubAgentId>,
    },
    /// A subagent began.
    SubAgentStarted {
        /// Which.
        subagent: SubAgentId,
        /// Its model.
        model: Option<String>,
        /// What it is to do.
        objective: String,
    },
    /// A subagent ended.
    SubAgentEnded {
        /// Which.
        subagent: SubAgentId,
        /// Why it failed.
        failure: Option<String>,
    },
    /// The sidecar has a command in its spool.
    CommandReceived(CommandId),
    /// The sidecar carried a lifecycle command out.
    CommandDone(LifecycleCommand, CommandId),
    /// The sidecar will not carry a command out.
    CommandRefused {
        /// The command.
        command: CommandId,
        /// A stable code.
        code: String,
        /// A sentence for a person.
        message: String,
    },
    /// The sidecar has checked the criteria, or broke that off: then results are missing.
    Validated {
        /// The command that ordered it.
        command: CommandId,
        /// How each criterion did, in order.
        results: Vec<CriterionResult>,
    },
    /// A message is about to be given to the agent.
    MessageInjecting(MessageId),
    /// The agent has a message.
    MessageInjected(MessageId),
    /// Worth a line in the activity stream, nothing more.
    Noted,
}

impl AgentFact {
    /// What a person reads of it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SidecarReady(_) => "The sidecar's readiness",
            Self::TurnStarted { .. } => "The start of a turn",
            Self::TurnCompleted { .. } => "The end of a turn",
            Self::SessionEnded { .. } => "The end of the agent's conversation",
            Self::QuestionAsked { .. } => "A question",
            Self::SettingsTold(_) => "What the agent works with",
            Self::BudgetExceeded { .. } => "A call beyond the budget",
            Self::QuotaExceeded { .. } => "The end of the quota",
            Self::DeliverablesTold(_) => "The deliverables",
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
            Self::Noted => "A notice",
        }
    }

    /// What the end of a turn brought, and how it ended.
    pub(crate) fn end_of_turn(self) -> (Option<SessionOutput>, SessionOutcome) {
        match self {
            Self::TurnCompleted { output, outcome, .. } => (output, outcome),
            Self::SessionEnded { output, is_error: false, .. } => (output, SessionOutcome::Completed),
            _ => (None, SessionOutcome::Completed),
        }
    }

    /// Facts that move the status: they wait while a request is under way (ruling 17).
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

/// Running totals of one meter and model (ruling 31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// The meter.
    pub meter: MeterId,
    /// The model.
    pub model: String,
    /// The subagent, when it has a meter of its own.
    pub subagent: Option<SubAgentId>,
    /// Dollars so far.
    pub cost: Usd,
    /// Tokens so far.
    pub tokens: TokenUsage,
    /// The context window now.
    pub context_window: Option<ContextWindowSnapshot>,
}

/// The last totals of one meter and model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeterTotals {
    /// Dollars.
    pub cost: Usd,
    /// Tokens.
    pub tokens: TokenUsage,
}

impl MeterTotals {
    /// Takes new totals and returns what they add: max(0, total − last), part by part (ruling 31).
    #[must_use]
    pub fn advance(&mut self, cost: Usd, tokens: TokenUsage) -> Self {
        let added = Self { cost: cost.excess_over(self.cost), tokens: tokens.increment_since(self.tokens) };
        self.cost = self.cost.max(cost);
        self.tokens = self.tokens.max(tokens);
        added
    }
}
