//! Models of the major vendors with their limits and list prices: `models/table.tsv`, which `models/update` writes from
//! public data. A configuration overrides them. The first model of a provider is its default.

use std::sync::LazyLock;

use pilothouse_domain::value::ThinkingLevel;
use rust_decimal::Decimal;

use super::info::ModelInfo;
use super::price::{Price, Tier};

const TABLE: &str = include_str!("../../models/table.tsv");

struct Row {
    provider: &'static str,
    id: &'static str,
    context_window: u64,
    max_output: u64,
    abilities: &'static str,
    tiers: Vec<Tier>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    // A test checks that every line is a row.
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
});

fn row(line: &'static str) -> Option<Row> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    Some(Row {
        provider: next()?,
        id: next()?,
        context_window: next()?.parse().ok()?,
        max_output: next()?.parse().ok()?,
        abilities: next()?,
        tiers: next()?.split(';').map(tier).collect::<Option<_>>()?,
    })
}

fn tier(text: &str) -> Option<Tier> {
    let (above, prices) = text.split_once(',')?;
    let prices: Vec<Decimal> = prices.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [input, output, cache_read, cache_write] = prices.try_into().ok()?;
    Some(Tier { above: above.parse().ok()?, input, output, cache_read, cache_write })
}

impl Row {
    fn can(&self, ability: char) -> bool {
        self.abilities.contains(ability)
    }

    fn price(&'static self) -> Option<Price> {
        let (base, tiers) = self.tiers.split_first()?;
        let Tier { input, output, cache_read, cache_write, .. } = *base;
        Some(Price { input, output, cache_read, cache_write, tiers })
    }

    fn info(&'static self) -> ModelInfo {
        ModelInfo {
            provider: self.provider.into(),
            id: self.id.into(),
            context_window: self.context_window,
            max_output_tokens: self.max_output,
            price: self.price(),
            vision: self.can('v'),
            thinking: self.can('t'),
            lowest_thinking: if self.can('m') { ThinkingLevel::Minimal } else { ThinkingLevel::Low },
            highest_thinking: if self.can('x') { ThinkingLevel::Max } else { ThinkingLevel::High },
            limits_assumed: false,
        }
    }
}

/// The price of a model of any provider.
pub(super) fn price(id: &str) -> Option<Price> {
    ROWS.iter().find(|row| row.id == id).and_then(Row::price)
}

/// Empty if the table does not have the provider.
pub(super) fn models(provider: &str) -> Vec<ModelInfo> {
    ROWS.iter().filter(|row| row.provider == provider).map(Row::info).collect()
}

/// A model by its vendor and its id there, as gateways name it. They write versions with a point.
pub(super) fn of_vendor(vendor: &str, id: &str) -> Option<ModelInfo> {
    const NAMES: [(&str, &str); 5] = [
        ("google", "gemini"),
        ("x-ai", "xai"),
        ("mistralai", "mistral"),
        ("moonshotai", "moonshot"),
        ("qwen", "alibaba"),
    ];
    let provider = NAMES.iter().find(|(name, _)| *name == vendor).map_or(vendor, |(_, provider)| provider);
    let (id, dashed) = (id.split(':').next().unwrap_or(id), id.replace('.', "-"));
    let named = |row: &&Row| row.provider == provider && (row.id == id || row.id == dashed);
    ROWS.iter().find(named).map(Row::info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_model_with_plausible_values() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((lines, ROWS.len() > 400), (ROWS.len(), true));
        for row in ROWS.iter() {
            let name = format!("{}/{}", row.provider, row.id);
            assert!(row.max_output <= row.context_window && row.context_window >= 4_000, "{name}");
            assert_eq!(row.tiers[0].above, 0, "{name}");
            for tier in &row.tiers {
                assert!(tier.cache_read <= tier.input && tier.cache_write >= tier.input, "{name}");
            }
            for pair in row.tiers.windows(2) {
                assert!(pair[1].above > pair[0].above && pair[1].input > pair[0].input, "{name}");
            }
        }
    }

    #[test]
    fn table_names_its_date_source_and_licence() {
        let head: String = TABLE.lines().take(3).collect();
        assert!(head.contains("Read on 2026-") && head.contains("litellm") && head.contains("MIT"), "{head}");
    }

    #[test]
    fn longer_prompts_cost_the_price_of_their_tier() {
        let price = price("gpt-5.4").unwrap();
        let cost = |input| price.worst_case(input, 0);
        assert_eq!(cost(272_000) * Decimal::from(2), Decimal::new(136, 2));
        assert_eq!(cost(300_000), Decimal::new(15, 1));
    }

    #[test]
    fn gateways_name_models_by_their_vendor() {
        let model = of_vendor("anthropic", "claude-opus-4.5").unwrap();
        assert_eq!((model.id.as_str(), model.context_window), ("claude-opus-4-5", 200_000));
        assert!(of_vendor("google", "gemini-2.5-pro").unwrap().vision);
        assert_eq!(of_vendor("nobody", "x"), None);
    }

    #[test]
    fn retired_models_are_not_offered() {
        let offered: Vec<String> = models("anthropic").into_iter().map(|model| model.id).collect();
        assert!(
            !offered.iter().any(|id| id == "claude-sonnet-4-0" || id == "claude-opus-4-1"),
            "{offered:?}"
        );
    }
}
