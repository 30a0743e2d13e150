//! Numbers of tokens (S0 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
