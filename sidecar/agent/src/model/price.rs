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
    #[serde(with = "rust_decimal::serde::str")]
    pub output: Decimal,
    /// Input tokens read from a cache.
    #[serde(with = "rust_decimal::serde::str")]
    pub cache_read: Decimal,
    /// Input tokens written to a cache.
    #[serde(with = "rust_decimal::serde::str")]
    pub cache_write: Decimal,
    /// Prices of calls with longer prompts, shortest first.
    #[serde(skip)]
    pub tiers: &'static [Tier],
}

/// Prices of calls whose prompt is longer than a limit. They apply to all tokens of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// The longest prompt of the tier before, in tokens.
    pub above: u64,
    /// Thousandths of a dollar per million tokens: input, output, read from a cache, written to a cache.
    pub mills: [i64; 4],
}

impl Price {
    /// Creates prices from thousandths of a dollar per million tokens.
    pub(crate) fn mills([input, output, cache_read, cache_write]: [i64; 4]) -> Self {
        let [input, output, cache_read, cache_write] =
            [input, output, cache_read, cache_write].map(|mills| Decimal::new(mills, 3));
        Self { input, output, cache_read, cache_write, tiers: &[] }
    }

    /// Adds prices of longer prompts.
    pub(crate) const fn with_tiers(mut self, tiers: &'static [Tier]) -> Self {
        self.tiers = tiers;
        self
    }

    /// `input` includes cached tokens.
    fn of_prompt(&self, input: u64) -> Self {
        self.tiers.iter().rfind(|tier| input > tier.above).map_or(*self, |tier| Self::mills(tier.mills))
    }

    /// In US dollars.
    pub fn of(&self, usage: &Usage) -> Decimal {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let price = self.of_prompt(prompt);
        let sum = Decimal::from(usage.input) * price.input
            + Decimal::from(usage.output) * price.output
            + Decimal::from(usage.cache_read) * price.cache_read
            + Decimal::from(usage.cache_write) * price.cache_write;
        (sum / Decimal::from(1_000_000)).normalize()
    }

    /// Upper bound in US dollars for a call with `input` input tokens and at most `output` output tokens (decision
    /// 32). Assumes the highest price for the whole input.
    pub fn worst_case(&self, input: u64, output: u64) -> Decimal {
        let price = self.of_prompt(input);
        let dearest = price.input.max(price.cache_write);
        let sum = Decimal::from(input) * dearest + Decimal::from(output) * price.output;
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
    fn longer_prompt_costs_the_price_of_its_tier() {
        const TIERS: &[Tier] = &[
            Tier { above: 32_000, mills: [2_000, 10_000, 400, 2_500] },
            Tier { above: 128_000, mills: [3_000, 15_000, 600, 3_750] },
        ];
        let price = Price::mills([1_000, 5_000, 200, 1_250]).with_tiers(TIERS);
        let of = |input, cache_read| {
            price.of(&Usage { input, output: 1_000, cache_read, ..Usage::default() }).to_string()
        };
        assert_eq!(of(32_000, 0), "0.037");
        assert_eq!(of(22_001, 10_000), "0.058002", "cached tokens belong to the prompt");
        assert_eq!(of(200_000, 0), "0.615");
        assert_eq!(price.worst_case(200_000, 1_000).to_string(), "0.765");
    }

    #[test]
    fn worst_case_uses_the_highest_input_price() {
        let price = Price::mills([3_000, 15_000, 300, 3_750]);
        assert_eq!(price.worst_case(1_000_000, 1_000_000), Decimal::new(1875, 2));
    }
}
