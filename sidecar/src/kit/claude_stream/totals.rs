//! Cost of conversations by model, as the runtime reports it.

use pilothouse_domain::value::TokenUsage;
use serde_json::Value;

use crate::kit::json::count;
use crate::kit::usage::{ModelTotals, usd};

/// Parses the runtime's `modelUsage`.
pub(super) fn models(reported: Option<&Value>) -> impl Iterator<Item = (String, ModelTotals)> {
    reported.and_then(Value::as_object).into_iter().flatten().map(|(model, usage)| {
        let tokens = TokenUsage {
            input_tokens: count(usage, "inputTokens").unwrap_or(0),
            output_tokens: count(usage, "outputTokens").unwrap_or(0),
            cache_read_tokens: count(usage, "cacheReadInputTokens").unwrap_or(0),
            cache_write_tokens: count(usage, "cacheCreationInputTokens").unwrap_or(0),
        };
        (model.clone(), ModelTotals { cost_usd: usd(usage.get("costUSD")), tokens })
    })
}
