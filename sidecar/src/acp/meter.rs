//! Running totals by model, and the context window (ruling 31). An agent reports what its conversation cost so far, and what
//! each turn took in tokens; neither says by which model, so what came since the last report belongs to the model of now.

use std::collections::BTreeMap;

use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{MeterId, Usd};
use pilothouse_wire::event::{RawContextWindow, RawEvent, UsageUpdate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one model cost in a conversation so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Total {
    cost_usd: Usd,
    tokens: TokenUsage,
}

/// What outlives a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Totals {
    by_model: BTreeMap<String, Total>,
    /// The last total that the agent reported.
    reported_usd: Usd,
}

/// The meter of one conversation.
#[derive(Debug)]
pub(super) struct Meter {
    id: Option<MeterId>,
    model: String,
    totals: Totals,
    window: Option<(u64, u64)>,
    /// The fill at which it was told last.
    told: Option<u64>,
    warn_at_percent: u8,
    warned: bool,
    /// Whether the agent ever said what its conversation costs.
    has_cost: bool,
}

impl Meter {
    /// The meter of a conversation, with the totals that it goes on from.
    pub(super) fn new(conversation: &str, totals: Totals, model: &str, warn_at_percent: u8) -> Self {
        let has_cost = !totals.reported_usd.is_zero();
        Self {
            id: MeterId::parse(conversation).ok(),
            model: model.to_owned(),
            totals,
            window: None,
            told: None,
            warn_at_percent,
            warned: false,
            has_cost,
        }
    }

    /// The model that works from now on.
    pub(super) fn model(&mut self, model: &str) {
        model.clone_into(&mut self.model);
    }

    /// What is kept for a later run.
    pub(super) const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Whether the agent says what its conversation costs.
    pub(super) const fn has_cost(&self) -> bool {
        self.has_cost
    }

    /// Whether it says how full its window is.
    pub(super) const fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// Takes a `usage_update`: the window, and the conversation's cost so far when it is there.
    pub(super) fn update(&mut self, update: &Value) -> Vec<RawEvent> {
        if let Some(model) = super::json::text_at(update, &["_meta", "_claude/model"]) {
            self.model(model);
        }
        let count = |key| update.get(key).and_then(Value::as_u64);
        if let (Some(used), Some(size)) = (count("used"), count("size").filter(|size| *size > 0)) {
            self.window = Some((used, size));
        }
        let dollars = super::json::text_at(update, &["cost", "currency"])
            .is_none_or(|it| it.eq_ignore_ascii_case("usd"));
        let amount = update.get("cost").and_then(|cost| cost.get("amount")).filter(|_| dollars);
        self.has_cost |= amount.is_some();
        let spent = amount.is_some_and(|amount| self.costs(usd(amount)));
        if !spent && !self.window_moved() {
            return Vec::new();
        }
        self.tell()
    }

    /// A turn took these tokens: `usage` of the answer to a prompt.
    pub(super) fn turn(&mut self, usage: &Value) -> Vec<RawEvent> {
        let count = |key| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
        let tokens = TokenUsage {
            input_tokens: count("inputTokens"),
            output_tokens: count("outputTokens").saturating_add(count("thoughtTokens")),
            cache_read_tokens: count("cachedReadTokens"),
            cache_write_tokens: count("cachedWriteTokens"),
        };
        if tokens.total() == 0 {
            return Vec::new();
        }
        let kept = &mut self.totals.by_model.entry(self.model.clone()).or_default().tokens;
        kept.input_tokens = kept.input_tokens.saturating_add(tokens.input_tokens);
        kept.output_tokens = kept.output_tokens.saturating_add(tokens.output_tokens);
        kept.cache_read_tokens = kept.cache_read_tokens.saturating_add(tokens.cache_read_tokens);
        kept.cache_write_tokens = kept.cache_write_tokens.saturating_add(tokens.cache_write_tokens);
        self.tell()
    }

    /// How full the window is, in percent.
    pub(super) fn percent(&self) -> Option<u64> {
        let (used, size) = self.window?;
        Some(used.saturating_mul(100) / size)
    }

    /// Takes the agent's total. Answers whether anything was spent. A total below the last one is an agent that began to
    /// count anew: all of it was spent since.
    fn costs(&mut self, total: Usd) -> bool {
        let since = if total < self.totals.reported_usd {
            total
        } else {
            total.excess_over(self.totals.reported_usd)
        };
        self.totals.reported_usd = total;
        self.totals.by_model.entry(self.model.clone()).or_default().cost_usd += since;
        !since.is_zero()
    }

    /// The window is told with every message of the model; a hundredth of it is news.
    fn window_moved(&self) -> bool {
        let Some((used, size)) = self.window else { return false };
        self.told.is_none_or(|told| told.abs_diff(used).saturating_mul(100) >= size)
    }

    fn tell(&mut self) -> Vec<RawEvent> {
        let Some(meter_id) = self.id.clone() else { return Vec::new() };
        let total = self.totals.by_model.get(&self.model).copied().unwrap_or_default();
        self.told = self.window.map(|(used, _)| used);
        let context_window = self.window.map(|(used, size)| RawContextWindow {
            usage: TokenUsage { input_tokens: used, ..TokenUsage::default() },
            model_context_limit: size,
        });
        let mut events = vec![RawEvent::UsageUpdate(UsageUpdate {
            meter_id,
            model_id: self.model.clone(),
            subagent_id: None,
            cost_usd: total.cost_usd.to_string(),
            token_usage: total.tokens,
            context_window,
        })];
        events.extend(self.warn());
        events
    }

    /// Tells once that the window is nearly full, and again only after it was emptier.
    fn warn(&mut self) -> Option<RawEvent> {
        let (used, size) = self.window?;
        let hundredths = u128::from(used) * 10_000 / u128::from(size);
        let near = hundredths >= u128::from(self.warn_at_percent) * 100;
        let tell = near && !self.warned;
        self.warned = near;
        tell.then(|| RawEvent::ContextNearingLimit {
            usage_percent: format!("{}.{:02}", hundredths / 100, hundredths % 100),
        })
    }
}

/// A JSON number as dollars; its text becomes a decimal and is never calculated with as a float.
fn usd(amount: &Value) -> Usd {
    match amount {
        Value::Number(number) => number.to_string().parse().unwrap_or_default(),
        Value::String(text) => text.parse().unwrap_or_default(),
        _ => Usd::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(events: &[RawEvent]) -> Vec<String> {
        events
            .iter()
            .map(|event| match event {
                RawEvent::UsageUpdate(u) => {
                    format!("{} {} {}", u.model_id, u.cost_usd, u.token_usage.total())
                }
                RawEvent::ContextNearingLimit { usage_percent } => format!("near {usage_percent}"),
                other => other.name().to_owned(),
            })
            .collect()
    }

    fn cost(amount: f64, used: u64) -> Value {
        json!({"used": used, "size": 1000, "cost": {"amount": amount, "currency": "USD"}})
    }

    #[test]
    fn totals_are_kept_by_model_and_never_go_down() {
        let mut meter = Meter::new("s", Totals::default(), "a", 80);
        assert_eq!(told(&meter.update(&cost(0.1, 5))), ["a 0.1 0"]);
        meter.model("b");
        assert_eq!(told(&meter.update(&cost(0.25, 6))), ["b 0.15 0"]);
        assert_eq!(told(&meter.turn(&json!({"inputTokens": 3, "outputTokens": 4}))), ["b 0.15 7"]);
        // Another process that counts from nothing.
        let mut meter = Meter::new("s", meter.totals().clone(), "b", 80);
        assert_eq!(told(&meter.update(&cost(0.05, 6))), ["b 0.2 7"]);
        assert_eq!(told(&meter.update(&cost(0.05, 6))), Vec::<String>::new());
    }

    #[test]
    fn a_window_that_hardly_moved_is_not_told_and_a_full_one_is_warned_of_once() {
        let mut meter = Meter::new("s", Totals::default(), "a", 80);
        let window = |used: u64| json!({"used": used, "size": 1000});
        assert_eq!(meter.update(&window(100)).len(), 1);
        assert!(meter.update(&window(105)).is_empty());
        assert_eq!(told(&meter.update(&window(801))), ["a 0 0", "near 80.10"]);
        assert_eq!(told(&meter.update(&window(900))), ["a 0 0"]);
        assert_eq!(meter.percent(), Some(90));
    }

    #[test]
    fn money_of_another_country_is_not_dollars() {
        let mut meter = Meter::new("s", Totals::default(), "a", 80);
        assert!(meter.update(&json!({"cost": {"amount": 3, "currency": "EUR"}})).is_empty());
    }
}
