//! The cost of the agent: the tokens of each model call that the shim reports (`raw_provider` event `usage`), at the
//! model's price.

use pilothouse_agent::message::Usage;
use pilothouse_agent::model::registry::ModelRegistry;
use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{MeterId, Usd};
use pilothouse_wire::RawEvent;
use serde_json::Value;

use crate::kit::json::{count, text};
use crate::kit::usage::{self, ModelTotals, Totals, usd};

pub(super) struct Meter {
    prices: ModelRegistry,
    id: MeterId,
    /// The model of the brief, for reports that name none.
    model: String,
    pub(super) totals: Totals,
}

impl Meter {
    pub(super) const fn new(prices: ModelRegistry, id: MeterId, model: String, totals: Totals) -> Self {
        Self { prices, id, model, totals }
    }

    pub(super) fn spent(&self) -> Usd {
        usage::cost(&self.totals)
    }

    /// Whether tokens of the brief's model have a price.
    pub(super) fn is_priced(&self) -> bool {
        self.prices.price(&self.model).is_some()
    }

    /// Adds a model call, and returns the event with the new totals.
    pub(super) fn add(&mut self, report: &Value) -> RawEvent {
        let model = text(report, "modelId").unwrap_or(&self.model).to_owned();
        let tokens = |name: &str| count(report, name).unwrap_or_default();
        let tokens = TokenUsage {
            input_tokens: tokens("inputTokens"),
            output_tokens: tokens("outputTokens"),
            cache_read_tokens: tokens("cacheReadTokens"),
            cache_write_tokens: tokens("cacheWriteTokens"),
        };
        let cost_usd = if report.get("costUsd").is_some() {
            usd(report.get("costUsd"))
        } else {
            // Some SDKs add a version to the name of the model that they were given.
            let price = self.prices.price(&model).or_else(|| self.prices.price(&self.model));
            let used = Usage {
                input: tokens.input_tokens,
                output: tokens.output_tokens,
                cache_read: tokens.cache_read_tokens,
                cache_write: tokens.cache_write_tokens,
            };
            price.and_then(|price| Usd::new(price.of((&used).into())).ok()).unwrap_or_default()
        };
        let total = self.totals.entry(model.clone()).or_default();
        *total = total.plus(ModelTotals { cost_usd, tokens });
        total.event(self.id.clone(), model, None, None)
    }
}
