//! Usage and cost of a session: running totals that continue across resume and fork (decision 31).

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::message::Usage;
use crate::model::price::Price;

/// Running totals by model. They never decrease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Meters {
    models: BTreeMap<String, Meter>,
}

/// The running total of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meter {
    pub usage: Usage,
    /// US dollars at list prices, without calls of unknown price.
    #[serde(with = "rust_decimal::serde::str")]
    pub cost_usd: Decimal,
    pub calls: u64,
}

impl Meters {
    /// Returns the call's cost in US dollars.
    pub fn add(&mut self, provider: &str, model: &str, usage: &Usage, price: Option<&Price>) -> Decimal {
        let cost = price.map_or(Decimal::ZERO, |price| price.of(usage.into()));
        let meter = self.models.entry(format!("{provider}/{model}")).or_default();
        meter.usage.input += usage.input;
        meter.usage.output += usage.output;
        meter.usage.cache_read += usage.cache_read;
        meter.usage.cache_write += usage.cache_write;
        meter.cost_usd += cost;
        meter.calls += 1;
        cost
    }

    /// The total of each model (`provider/id`), sorted by name.
    pub fn by_model(&self) -> impl Iterator<Item = (&str, &Meter)> {
        self.models.iter().map(|(model, meter)| (model.as_str(), meter))
    }

    pub fn total(&self) -> Meter {
        self.models.values().fold(Meter::default(), |mut sum, meter| {
            sum.usage.input += meter.usage.input;
            sum.usage.output += meter.usage.output;
            sum.usage.cache_read += meter.usage.cache_read;
            sum.usage.cache_write += meter.usage.cache_write;
            sum.cost_usd += meter.cost_usd;
            sum.calls += meter.calls;
            sum
        })
    }
}
