//! Usage of a session: totals, and a snapshot of the context window (S0 8.5).

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TokenUsage, UsageByModel};
use crate::Timestamp;

/// State of the context window. Each snapshot replaces the previous one (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextWindowSnapshot {
    /// Tokens in the window.
    #[serde(flatten)]
    pub usage: TokenUsage,
    /// Size of the model's context window in tokens; at least 1.
    pub model_context_limit: u64,
    pub recorded_at: Timestamp,
}

impl ContextWindowSnapshot {
    /// Used share of the window, in percent with two decimals.
    pub fn usage_percent(&self) -> Decimal {
        let limit = Decimal::from(self.model_context_limit.max(1));
        (Decimal::from(self.usage.total()) * Decimal::ONE_HUNDRED / limit).round_dp(2).normalize()
    }
}

/// Metrics of a session (S0 8.5), including those of its subagents.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionMetrics {
    /// Spend and tokens, including subagents.
    #[serde(flatten)]
    pub usage: UsageByModel,
    /// Context window of the main agent; `null` before the first report.
    pub context_window: Option<ContextWindowSnapshot>,
    /// Number of completed turns.
    pub turn_count: u32,
    /// When the last turn ended.
    pub last_turn_at: Option<Timestamp>,
}
