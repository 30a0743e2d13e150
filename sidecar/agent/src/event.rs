//! What a session tells while it works (S1 3.3, 4.2).

use std::time::Duration;

use pilothouse_domain::value::ThinkingLevel;

use crate::message::{AgentMessage, ToolCall, ToolResultMessage, Usage};

/// Something that happened, in order. What carries an entry id is in the session tree already.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// A run of the loop began (S1 3.1).
    AgentStart,
    /// The loop has nothing to do any more (S1 3.2).
    AgentEnd {
        /// Why.
        outcome: AgentOutcome,
    },
    /// The context goes to the model.
    TurnStart,
    /// The answer and the results of its tools are there.
    TurnEnd,
    /// A piece of the answer's text.
    TextDelta(String),
    /// A piece of the answer's thoughts.
    ThinkingDelta(String),
    /// A message is complete and in the tree (S1 9, `message_end`).
    MessageEnd {
        /// The entry.
        entry_id: String,
        /// The message.
        message: AgentMessage,
    },
    /// A message that was given with a tag is in the conversation; comes after its `MessageEnd`.
    Injected {
        /// The tag.
        tag: String,
        /// The entry.
        entry_id: String,
    },
    /// A tool begins.
    ToolExecutionStart(ToolCall),
    /// A tool wrote something.
    ToolExecutionUpdate {
        /// The call.
        tool_call_id: String,
        /// What it wrote.
        chunk: String,
    },
    /// A tool is over.
    ToolExecutionEnd(ToolResultMessage),
    /// A command of the user wrote something (S1 7).
    BashUpdate {
        /// What it wrote.
        chunk: String,
    },
    /// What the queues hold now.
    QueueUpdate {
        /// Steering messages that wait.
        steering: usize,
        /// Follow-ups that wait.
        follow_up: usize,
    },
    /// A model call was paid for.
    Usage {
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// What it took.
        usage: Usage,
        /// Whether nobody told, and it was reckoned from what was sent and what came of an answer that broke off.
        estimated: bool,
        /// Tokens in the context window now.
        context_tokens: u64,
        /// The most that the model takes.
        context_window: u64,
    },
    /// The conversation is about to be summarised (S1 4.2).
    CompactionStart {
        /// Why.
        reason: CompactionReason,
    },
    /// It is summarised, or that failed (S1 4.2).
    CompactionEnd {
        /// Why.
        reason: CompactionReason,
        /// Tokens before it.
        tokens_before: u64,
        /// The summary, or why there is none.
        result: Result<String, String>,
    },
    /// A call failed and is tried again after a pause (S1 4.2).
    AutoRetryStart {
        /// Counts from 1.
        attempt: u32,
        /// The most tries.
        max_attempts: u32,
        /// The pause.
        delay: Duration,
        /// What failed.
        error: String,
    },
    /// Trying again is over (S1 4.2).
    AutoRetryEnd {
        /// Whether it helped.
        success: bool,
        /// How often it was tried again.
        attempts: u32,
    },
    /// Another model answers from here on.
    ModelChange {
        /// The provider.
        provider: String,
        /// The model.
        model: String,
    },
    /// It thinks more or less deeply from here on.
    ThinkingLevelChange(ThinkingLevel),
}

/// Why the loop has nothing to do any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentOutcome {
    /// The model stopped, and nothing is queued.
    Completed,
    /// It was aborted (S1 5, `Abort`).
    Aborted,
    /// It reached the most turns that it may take.
    MaxTurns,
    /// Whoever watches it did not let it go on: the reason.
    Held(String),
    /// A call failed for good.
    Failed(String),
    /// The plan that pays is used up.
    QuotaExceeded {
        /// The provider's own words.
        message: String,
        /// When it can go on, where the provider said.
        reset_at: Option<pilothouse_domain::Timestamp>,
    },
    /// A full context window, and summarising is not allowed (ruling 35).
    ContextExhausted,
}

/// Why a conversation is summarised (S1 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// It passed the threshold.
    Threshold,
    /// It did not fit.
    Overflow,
    /// It was asked for.
    Manual,
}
