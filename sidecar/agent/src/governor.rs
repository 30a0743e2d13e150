//! Who watches what a session is about to do, and holds it where it must not go on (rulings 15, 32).

use async_trait::async_trait;
use rust_decimal::Decimal;

use crate::message::ToolCall;

/// Asked before every model call and before every tool.
///
/// To let the session wait, as for a pause, do not return until it may go on: the session does nothing new in the
/// meantime, and an abort ends the wait. The future may be dropped at any time.
#[async_trait]
pub trait Governor: Send + Sync {
    /// A model is about to be called.
    async fn before_model(&self, call: &ModelCall) -> Verdict {
        let _ = call;
        Verdict::Go
    }

    /// A tool is about to run. Its arguments are valid and hooks have seen them.
    async fn before_tool(&self, call: &ToolCall) -> Verdict {
        let _ = call;
        Verdict::Go
    }
}

/// Whether the session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Go,
    /// It ends as [`AgentOutcome::Held`](crate::event::AgentOutcome::Held), with this reason. Tool calls that are
    /// left get an error result that says so.
    Stop(String),
}

/// A model call that has not been sent yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// What it is for.
    pub purpose: CallPurpose,
    /// Tokens that it reads at most, estimated.
    pub input_tokens: u64,
    /// Tokens that it writes at most.
    pub max_output_tokens: u64,
    /// The most dollars that it can take, at list price (ruling 32). None: nobody knows the model's price.
    pub worst_case_usd: Option<Decimal>,
    /// What this session's meters say it has spent so far, in dollars, and the worst case of what is under way beside it.
    pub spent_usd: Decimal,
}

/// What a model call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPurpose {
    /// The next turn of the conversation.
    Turn,
    /// A summary of it (S1 6.1).
    Compaction,
    /// The same, while the conversation goes on. Its worst case has that of the next turn in it, so that it does not stand in
    /// the turn's way. One that may not go now is better stopped than held: it is asked for again after the next turn.
    BackgroundCompaction,
}

/// Lets everything pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ungoverned;

#[async_trait]
impl Governor for Ungoverned {}
