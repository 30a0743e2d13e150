//! Permission for each step of a session (decisions 15, 32).

use async_trait::async_trait;
use rust_decimal::Decimal;
use serde_json::Value;

use crate::message::ToolCall;

/// Called before every model call and every tool.
///
/// To make the session wait, for example during a pause, do not return until it may proceed. The session begins no step
/// meanwhile, and an abort ends the wait. The future may be dropped at any time.
#[async_trait]
pub trait Governor: Send + Sync {
    async fn before_model(&self, call: &ModelCall) -> Verdict {
        let _ = call;
        Verdict::Go
    }

    /// The arguments are valid, and hooks have processed them.
    async fn before_tool(&self, call: &ToolCall) -> ToolVerdict {
        let _ = call;
        ToolVerdict::Go
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Go,
    /// End the run as [`AgentOutcome::Held`](crate::event::AgentOutcome::Held), with this reason, which is also the
    /// error result of the remaining tool calls.
    Stop(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolVerdict {
    Go,
    /// Run the tool with these arguments instead, if they are valid.
    GoWith(Value),
    /// Do not run the tool. The run continues, and this sentence is the error result.
    Refuse(String),
    /// Like [`Verdict::Stop`].
    Stop(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    pub provider: String,
    pub model: String,
    pub purpose: CallPurpose,
    /// Upper bound for the input tokens, estimated.
    pub input_tokens: u64,
    /// Upper bound for the output tokens.
    pub max_output_tokens: u64,
    /// Upper bound for the price in US dollars at list prices (decision 32). `None` if the model's price is unknown.
    pub worst_case_usd: Option<Decimal>,
    /// Spend of the session so far in US dollars, plus the upper bound of concurrent calls.
    pub spent_usd: Decimal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPurpose {
    Turn,
    /// A compaction of the conversation (S1 6.1).
    Compaction,
    /// A compaction beside the conversation. Its price bound includes the next turn, so that it does not block the
    /// turn. Stop such a call instead of holding it: the session asks again after the next turn.
    BackgroundCompaction,
}

/// Permits everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ungoverned;

#[async_trait]
impl Governor for Ungoverned {}
