//! Cost of conversations by model, as the runtime reports it.

use std::collections::BTreeMap;

use pilothouse_domain::Usd;
use pilothouse_domain::value::TokenUsage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kit::json::count;

/// The totals of a conversation by model.
pub type Totals = BTreeMap<String, ModelTotals>;

/// Cost of one model in a conversation so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelTotals {
    pub cost_usd: Usd,
    pub tokens: TokenUsage,
}

impl ModelTotals {
    pub(super) fn plus(self, other: Self) -> Self {
        let (a, b) = (self.tokens, other.tokens);
        Self {
            cost_usd: self.cost_usd + other.cost_usd,
            tokens: TokenUsage {
                input_tokens: a.input_tokens.saturating_add(b.input_tokens),
                output_tokens: a.output_tokens.saturating_add(b.output_tokens),
                cache_read_tokens: a.cache_read_tokens.saturating_add(b.cache_read_tokens),
                cache_write_tokens: a.cache_write_tokens.saturating_add(b.cache_write_tokens),
            },
        }
    }

    /// The difference to `other`; never negative.
    pub(super) fn beyond(self, other: Self) -> Self {
        let (a, b) = (self.tokens, other.tokens);
        Self {
            cost_usd: self.cost_usd.excess_over(other.cost_usd),
            tokens: TokenUsage {
                input_tokens: a.input_tokens.saturating_sub(b.input_tokens),
                output_tokens: a.output_tokens.saturating_sub(b.output_tokens),
                cache_read_tokens: a.cache_read_tokens.saturating_sub(b.cache_read_tokens),
                cache_write_tokens: a.cache_write_tokens.saturating_sub(b.cache_write_tokens),
            },
        }
    }
}

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

/// Converts a JSON number to dollars. Its text becomes a decimal, without floating-point arithmetic. Rounding to a
/// trillionth of a dollar removes the errors of the runtime's own float sums: `0.009570000000000002` becomes
/// `0.00957`. (Errors from parsing a float are below a trillionth for amounts under 4000 dollars.)
pub(super) fn usd(number: Option<&Value>) -> Usd {
    match number {
        Some(Value::Number(number)) => number.to_string().parse().unwrap_or_default(),
        Some(Value::String(s)) => s.parse().unwrap_or_default(),
        _ => Usd::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_parsed_from_the_text_of_the_number() {
        let number = |s: &str| usd(Some(&serde_json::from_str(s).unwrap())).to_string();
        assert_eq!(number("0.084861"), "0.084861");
        assert_eq!(number("0.009570000000000002"), "0.00957");
        assert_eq!(number("0.014384999999999998"), "0.014385");
        assert_eq!(number("1e-7"), "0.0000001");
        assert_eq!(number("0"), "0");
        assert_eq!(number("3999.123456789012"), "3999.123456789012");
        assert_eq!(number("-1"), "0");
    }
}
