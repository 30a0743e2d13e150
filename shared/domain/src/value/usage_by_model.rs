//! Spend and tokens by model (S0 8.5, decision 31).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TokenUsage;
use crate::Usd;

/// Spend and tokens, in total and by model. The costs of the models and [`Self::unattributed_cost_usd`] add up to the total.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct UsageByModel {
    #[serde(rename = "totalCostUsd")]
    total: Usd,
    #[serde(rename = "tokenUsageByModel")]
    tokens: BTreeMap<String, TokenUsage>,
    /// Earlier versions recorded only the total.
    #[serde(default, rename = "costUsdByModel", skip_serializing_if = "BTreeMap::is_empty")]
    costs: BTreeMap<String, Usd>,
}

impl UsageByModel {
    /// Most models that are counted by name. Usage of further models is counted as `other`.
    pub const MAX_MODELS: usize = 50;

    /// Adds usage of a model to the model and to the total.
    pub(crate) fn add(&mut self, model: &str, cost: Usd, tokens: TokenUsage) {
        let by_model = &mut self.tokens;
        let known = by_model.contains_key(model) || by_model.len() < Self::MAX_MODELS;
        let model = if known { model } else { "other" };
        let sum = by_model.entry(model.to_owned()).or_default();
        *sum = sum.plus(tokens);
        *self.costs.entry(model.to_owned()).or_default() += cost;
        self.total += cost;
    }

    pub const fn total_cost_usd(&self) -> Usd {
        self.total
    }

    pub const fn token_usage_by_model(&self) -> &BTreeMap<String, TokenUsage> {
        &self.tokens
    }

    /// Has every model that spent since the costs are recorded by model.
    pub const fn cost_usd_by_model(&self) -> &BTreeMap<String, Usd> {
        &self.costs
    }

    /// The part of the total that an earlier version recorded without its model.
    pub fn unattributed_cost_usd(&self) -> Usd {
        self.total.excess_over(self.costs.values().copied().sum())
    }

    pub fn total_tokens(&self) -> u64 {
        self.tokens.values().fold(0, |sum, usage| sum.saturating_add(usage.total()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(s: &str) -> Usd {
        s.parse().unwrap()
    }

    fn tokens(input_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, ..TokenUsage::default() }
    }

    #[test]
    fn costs_of_models_add_up_to_the_total() {
        let mut usage = UsageByModel::default();
        usage.add("large", usd("0.1"), tokens(10));
        usage.add("small", usd("0.02"), tokens(5));
        usage.add("large", usd("0.2"), tokens(1));
        let costs = BTreeMap::from([("large".to_owned(), usd("0.3")), ("small".to_owned(), usd("0.02"))]);
        assert_eq!(usage.cost_usd_by_model(), &costs);
        assert_eq!((usage.total_cost_usd(), usage.unattributed_cost_usd()), (usd("0.32"), Usd::ZERO));
        assert_eq!(usage.token_usage_by_model()["large"], tokens(11));
        assert_eq!(usage.total_tokens(), 16);
    }

    #[test]
    fn cost_stored_without_its_model_stays_unattributed() {
        let stored = r#"{ "totalCostUsd": "0.5", "tokenUsageByModel": { "large": { "inputTokens": 10 } } }"#;
        let mut usage: UsageByModel = serde_json::from_str(stored).unwrap();
        assert_eq!(usage.unattributed_cost_usd(), usd("0.5"));
        usage.add("large", usd("0.25"), tokens(1));
        assert_eq!(usage.cost_usd_by_model()["large"], usd("0.25"));
        assert_eq!((usage.total_cost_usd(), usage.unattributed_cost_usd()), (usd("0.75"), usd("0.5")));
    }

    #[test]
    fn models_above_the_limit_are_counted_as_other() {
        let mut usage = UsageByModel::default();
        for n in 0..UsageByModel::MAX_MODELS + 2 {
            usage.add(&format!("model-{n}"), usd("1"), tokens(1));
        }
        // A known model keeps its name.
        usage.add("model-0", usd("1"), tokens(1));
        assert_eq!(usage.cost_usd_by_model().len(), UsageByModel::MAX_MODELS + 1);
        assert_eq!(
            (usage.cost_usd_by_model()["other"], usage.token_usage_by_model()["other"]),
            (usd("2"), tokens(2))
        );
        assert_eq!(usage.cost_usd_by_model()["model-0"], usd("2"));
        assert_eq!((usage.total_cost_usd(), usage.unattributed_cost_usd()), (usd("53"), Usd::ZERO));
    }

    #[test]
    fn costs_of_models_add_up_at_the_highest_amount() {
        let mut usage = UsageByModel::default();
        usage.add("large", Usd::new(Usd::LIMIT).unwrap(), tokens(1));
        usage.add("small", usd("1"), tokens(1));
        assert_eq!(
            (usage.total_cost_usd(), usage.unattributed_cost_usd()),
            (Usd::new(Usd::LIMIT).unwrap(), Usd::ZERO)
        );
    }
}
