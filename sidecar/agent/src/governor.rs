//! Permission for each step of a session (decisions 15, 32).

use async_trait::async_trait;
use rust_decimal::Decimal;
use serde_json::Value;

use crate::message::ToolCall;
use crate::model::price::Price;

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
    /// Proceed with at most this many output tokens.
    GoWithin(u64),
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

/// A reply with fewer tokens would be useless.
pub(crate) const MIN_OUTPUT: u64 = 1_024;

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
    pub price: Option<Price>,
    /// Spend of the session so far in US dollars, plus the upper bound of concurrent calls.
    pub spent_usd: Decimal,
}

impl ModelCall {
    /// Upper bound for the price with the fewest output tokens of a useful reply.
    pub fn least_usd(&self) -> Option<Decimal> {
        let output = match self.purpose {
            CallPurpose::Turn => self.max_output_tokens.min(MIN_OUTPUT),
            CallPurpose::Compaction | CallPurpose::BackgroundCompaction => return self.worst_case_usd,
        };
        self.price.map(|price| price.worst_case(self.input_tokens, output))
    }

    /// The most output tokens with which the call costs at most this amount of US dollars. `None` if that is too few for
    /// a useful reply, or if the reply must be whole.
    pub fn affordable_output(&self, usd: Decimal) -> Option<u64> {
        let most = self.price?.affordable_output(self.input_tokens, usd).min(self.max_output_tokens);
        (self.purpose == CallPurpose::Turn && most >= MIN_OUTPUT).then_some(most)
    }
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
