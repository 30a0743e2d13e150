//! Events of a working session (S1 3.3, 4.2).

use std::time::Duration;

use pilothouse_domain::value::ThinkingLevel;
use tokio::sync::mpsc;

use crate::message::{AgentMessage, ToolCall, ToolResultMessage, Usage};
use crate::model::OmittedContent;

/// Events are ordered. One with an entry id is emitted after the entry was added to the session tree.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// A run of the loop began (S1 3.1).
    AgentStart,
    /// The run of the loop ended (S1 3.2).
    AgentEnd {
        outcome: AgentOutcome,
    },
    /// The context is about to be sent to the model.
    TurnStart,
    /// The reply and the results of its tools are complete.
    TurnEnd,
    /// A piece of the reply's text.
    TextDelta(String),
    /// A piece of the reply's thoughts.
    ThinkingDelta(String),
    /// A message is complete and in the tree (S1 9, `message_end`).
    MessageEnd {
        entry_id: String,
        message: AgentMessage,
    },
    /// A tagged message entered the conversation. Follows its `MessageEnd`.
    Injected {
        /// The tag from the prompt options.
        tag: String,
        entry_id: String,
    },
    ToolExecutionStart(ToolCall),
    /// A running tool wrote output.
    ToolExecutionUpdate {
        tool_call_id: String,
        chunk: String,
    },
    ToolExecutionEnd(ToolResultMessage),
    /// A command of the user wrote output (S1 7).
    BashUpdate {
        chunk: String,
    },
    /// The number of queued messages changed.
    QueueUpdate {
        steering: usize,
        follow_up: usize,
    },
    /// A model call used tokens.
    Usage {
        provider: String,
        model: String,
        usage: Usage,
        /// Whether the usage was estimated from the request and the received part of a reply that broke off,
        /// because the provider did not report it.
        estimated: bool,
        context_tokens: u64,
        /// Size of the model's context window.
        context_window: u64,
    },
    /// The context window is nearly full, so the agent was asked for its handoff document.
    HandoffRequested,
    /// A compaction starts (S1 4.2).
    CompactionStart {
        reason: CompactionReason,
    },
    /// A compaction ended (S1 4.2).
    CompactionEnd {
        reason: CompactionReason,
        tokens_before: u64,
        /// The summary, or why there is none.
        result: Result<String, String>,
    },
    /// A retry of a failed call follows after a delay (S1 4.2).
    AutoRetryStart {
        /// Counts from 1.
        attempt: u32,
        /// `None`: limited by time.
        max_attempts: Option<u32>,
        delay: Duration,
        error: String,
    },
    /// The retries ended (S1 4.2).
    AutoRetryEnd {
        success: bool,
        attempts: u32,
    },
    /// The provider rejected content of the conversation, so the model no longer gets it. The call is repeated.
    ContentOmitted {
        content: OmittedContent,
        /// The provider's message.
        error: String,
    },
    /// Later calls use another model.
    ModelChange {
        provider: String,
        model: String,
    },
    /// Later calls use another thinking level.
    ThinkingLevelChange(ThinkingLevel),
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    /// The model finished, and nothing is queued.
    Completed,
    /// The run was aborted (S1 5, `Abort`).
    Aborted,
    /// The run reached its limit of turns.
    MaxTurns,
    /// The governor stopped the run, for this reason.
    Held(String),
    /// A call failed permanently.
    Failed(String),
    QuotaExceeded {
        /// The provider's message.
        message: String,
        /// When the quota resets, if the provider reported it.
        reset_at: Option<pilothouse_domain::Timestamp>,
    },
    /// The model did not answer, and the retries are over. The session can be resumed.
    Unavailable {
        message: String,
        /// When to try again, if the provider reported it.
        retry_at: Option<pilothouse_domain::Timestamp>,
    },
    /// The context window is full, and compaction is not allowed (decision 35).
    ContextExhausted,
}

/// Why a conversation is compacted (S1 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// The context passed the threshold.
    Threshold,
    /// The context exceeded the window.
    Overflow,
    /// The caller requested it.
    Manual,
}

/// Emits events, with or without a receiver.
#[derive(Clone)]
pub(crate) struct Events(pub(crate) mpsc::UnboundedSender<SessionEvent>);

impl Events {
    pub(crate) fn emit(&self, event: SessionEvent) {
        let _ = self.0.send(event);
    }
}
