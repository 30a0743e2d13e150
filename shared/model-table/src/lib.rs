//! Models of the major vendors with their limits and list prices: `models/table.tsv`, which `models/update` writes from
//! public data. Agents take limits and prices from it, and the control plane the prices of the models that it asks itself.

mod price;

use std::sync::LazyLock;

use rust_decimal::Decimal;

pub use price::{Price, Tier, Tokens};

const TABLE: &str = include_str!("../models/table.tsv");

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRow {
    pub provider: &'static str,
    pub id: &'static str,
    /// In tokens.
    pub context_window: u64,
    /// The most tokens of an answer.
    pub max_output: u64,
    /// Letters: `v` images, `t` thinking, `m` minimal thinking, `x` the most thinking.
    abilities: &'static str,
    tiers: Vec<Tier>,
}

static ROWS: LazyLock<Vec<ModelRow>> = LazyLock::new(|| {
    // A test checks that every line is a row.
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
});

fn row(line: &'static str) -> Option<ModelRow> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    Some(ModelRow {
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

impl ModelRow {
    pub fn can(&self, ability: char) -> bool {
        self.abilities.contains(ability)
    }

    pub fn price(&'static self) -> Option<Price> {
        let (base, tiers) = self.tiers.split_first()?;
        let Tier { input, output, cache_read, cache_write, .. } = *base;
        Some(Price { input, output, cache_read, cache_write, tiers })
    }
}

/// All models. The first one of a provider is its default.
pub fn rows() -> &'static [ModelRow] {
    &ROWS
}

/// The price of a model of any provider. Gateways write the vendor before the id, and versions with a point.
pub fn price(id: &str) -> Option<Price> {
    let id = id.rsplit('/').next().unwrap_or(id);
    let dashed = id.replace('.', "-");
    rows().iter().find(|row| row.id == id || row.id == dashed).and_then(ModelRow::price)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_model_with_plausible_values() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((lines, ROWS.len() > 400), (ROWS.len(), true));
        for row in rows() {
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
    fn price_is_found_by_the_names_of_gateways() {
        assert_eq!(price("anthropic/claude-opus-4.5"), price("claude-opus-4-5"));
        assert!(price("claude-opus-4-5").is_some() && price("nobody/nothing").is_none());
    }
}
