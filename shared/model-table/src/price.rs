use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::{Deserialize, Serialize};

/// The tokens of a call, counted once each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Not read from a cache.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// List prices in US dollars per million tokens, exact (decision 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    pub input: Decimal,
    pub output: Decimal,
    pub cache_read: Decimal,
    pub cache_write: Decimal,
}

impl Price {
    /// `input` includes cached tokens.
    fn of_prompt(&self, input: u64) -> Self {
        let tier = self.tiers.iter().rfind(|tier| input > tier.above);
        tier.map_or(*self, |&Tier { input, output, cache_read, cache_write, .. }| Self {
            input,
            output,
            cache_read,
            cache_write,
            tiers: &[],
        })
    }

    /// In US dollars.
    pub fn of(&self, usage: Tokens) -> Decimal {
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
        let sum = price.worst_input(input) + Decimal::from(output) * price.output;
        (sum / Decimal::from(1_000_000)).normalize()
    }

    /// The most output tokens of a call whose worst case costs no more than this amount of US dollars.
    pub fn affordable_output(&self, input: u64, usd: Decimal) -> u64 {
        let price = self.of_prompt(input);
        let rest = usd * Decimal::from(1_000_000) - price.worst_input(input);
        match rest.checked_div(price.output) {
            Some(tokens) => tokens.floor().to_u64().unwrap_or(0),
            None if rest.is_sign_negative() => 0,
            None => u64::MAX,
        }
    }

    /// In millionths of a dollar.
    fn worst_input(&self, input: u64) -> Decimal {
        Decimal::from(input) * self.input.max(self.cache_write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(above: u64, prices: [&str; 4]) -> Tier {
        let [input, output, cache_read, cache_write] = prices.map(|price| price.parse().unwrap());
        Tier { above, input, output, cache_read, cache_write }
    }

    fn price(prices: [&str; 4]) -> Price {
        let Tier { input, output, cache_read, cache_write, .. } = tier(0, prices);
        Price { input, output, cache_read, cache_write, tiers: &[] }
    }

    #[test]
    fn a_price_is_exact_to_the_last_token() {
        let price = price(["3", "15", "0.3", "3.75"]);
        let usage = Tokens { input: 1, output: 1, cache_read: 1, cache_write: 1 };
        assert_eq!(price.of(usage).to_string(), "0.00002205");
    }

    #[test]
    fn longer_prompt_costs_the_price_of_its_tier() {
        let tiers = vec![tier(32_000, ["2", "10", "0.4", "2.5"]), tier(128_000, ["3", "15", "0.6", "3.75"])];
        let price = Price { tiers: Vec::leak(tiers), ..price(["1", "5", "0.2", "1.25"]) };
        let of = |input, cache_read| {
            price.of(Tokens { input, output: 1_000, cache_read, ..Tokens::default() }).to_string()
        };
        assert_eq!(of(32_000, 0), "0.037");
        assert_eq!(of(22_001, 10_000), "0.058002", "cached tokens belong to the prompt");
        assert_eq!(of(200_000, 0), "0.615");
        assert_eq!(price.worst_case(200_000, 1_000).to_string(), "0.765");
    }

    #[test]
    fn worst_case_uses_the_highest_input_price() {
        let price = price(["3", "15", "0.3", "3.75"]);
        assert_eq!(price.worst_case(1_000_000, 1_000_000), Decimal::new(1875, 2));
    }

    #[test]
    fn affordable_output_is_the_most_whose_worst_case_fits() {
        let price = price(["3", "15", "0.3", "3.75"]);
        let usd = Decimal::new(1, 1);
        let most = price.affordable_output(10_000, usd);
        assert!(price.worst_case(10_000, most) <= usd && price.worst_case(10_000, most + 1) > usd, "{most}");
        assert_eq!(price.affordable_output(100_000, usd), 0, "the input alone costs more");
        assert_eq!(self::price(["0", "0", "0", "0"]).affordable_output(100_000, Decimal::ZERO), u64::MAX);
    }
}
