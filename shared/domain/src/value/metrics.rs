//! Usage of a session: totals, and a snapshot of the context window (S0 8.5).

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UsageByModel;
use crate::Timestamp;

/// Token counts, which add up over turns and subagents (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// Tokens sent to the model.
    pub input_tokens: u64,
    /// Tokens that the model generated.
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the prompt cache.
    pub cache_write_tokens: u64,
}

impl TokenUsage {
    pub const fn total(self) -> u64 {
        self.input_tokens
            .saturating_add(self.output_tokens)
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_tokens)
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input_tokens: f(self.input_tokens, other.input_tokens),
            output_tokens: f(self.output_tokens, other.output_tokens),
            cache_read_tokens: f(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: f(self.cache_write_tokens, other.cache_write_tokens),
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// Never below zero (decision 31).
    #[must_use]
    pub fn increment_since(self, earlier: Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }

    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }
}

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
