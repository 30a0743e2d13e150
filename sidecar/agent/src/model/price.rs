//! Prices of models.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::message::Usage;

/// List prices in US dollars per million tokens, exact (decision 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Input tokens, not read from a cache.
    #[serde(with = "rust_decimal::serde::str")]
    pub input: Decimal,
    /// Output tokens.
    #[serde(with = "rust_decimal::serde::str")]
    pub output: Decimal,
    /// Input tokens read from a cache.
    #[serde(with = "rust_decimal::serde::str")]
    pub cache_read: Decimal,
    /// Input tokens written to a cache.
    #[serde(with = "rust_decimal::serde::str")]
    pub cache_write: Decimal,
}

impl Price {
    /// Creates prices from thousandths of a dollar per million tokens.
    pub(crate) fn mills([input, output, cache_read, cache_write]: [i64; 4]) -> Self {
        let [input, output, cache_read, cache_write] =
            [input, output, cache_read, cache_write].map(|mills| Decimal::new(mills, 3));
        Self { input, output, cache_read, cache_write }
    }

    /// The price of `usage` in US dollars.
    pub fn of(&self, usage: &Usage) -> Decimal {
        let sum = Decimal::from(usage.input) * self.input
            + Decimal::from(usage.output) * self.output
            + Decimal::from(usage.cache_read) * self.cache_read
            + Decimal::from(usage.cache_write) * self.cache_write;
        (sum / Decimal::from(1_000_000)).normalize()
    }

    /// Upper bound in US dollars for a call with `input` input tokens and at most `output` output tokens (decision
    /// 32). Assumes the highest price for the whole input.
    pub fn worst_case(&self, input: u64, output: u64) -> Decimal {
        let dearest = self.input.max(self.cache_write);
        let sum = Decimal::from(input) * dearest + Decimal::from(output) * self.output;
        (sum / Decimal::from(1_000_000)).normalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_exact_to_the_last_token() {
        let price = Price::mills([3_000, 15_000, 300, 3_750]);
        let usage = Usage { input: 1, output: 1, cache_read: 1, cache_write: 1 };
        assert_eq!(price.of(&usage).to_string(), "0.00002205");
    }

    #[test]
    fn worst_case_uses_the_highest_input_price() {
        let price = Price::mills([3_000, 15_000, 300, 3_750]);
        assert_eq!(price.worst_case(1_000_000, 1_000_000), Decimal::new(1875, 2));
    }
}
