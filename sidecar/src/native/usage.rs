//! The agent's usage: running totals of its conversation (decision 31), and the fill level of its context window.

use pilothouse_agent::message::Usage;
use pilothouse_agent::meter::Meters;
use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{InvalidId, MeterId, Usd};
use pilothouse_wire::RawEvent;
use rust_decimal::Decimal;

use crate::kit::usage::{ModelTotals, Window};

/// Totals of `model` (`provider/id`) in the conversation after a call.
pub(super) fn update(
    conversation: &str,
    meters: &Meters,
    model: &str,
    window: Window,
) -> Result<Option<RawEvent>, InvalidId> {
    let Some((name, meter)) = meters.by_model().find(|(name, _)| *name == model) else { return Ok(None) };
    let id = name.split_once('/').map_or(name, |(_, id)| id);
    let meter_id = MeterId::parse(format!("native-{conversation}"))?;
    let totals = ModelTotals { cost_usd: dollars(meter.cost_usd), tokens: tokens(&meter.usage) };
    Ok(Some(totals.event(meter_id, id.to_owned(), None, Some(window.reported()))))
}

/// The agent's exact amount, rounded to the precision of the control plane.
pub(super) fn dollars(amount: Decimal) -> Usd {
    Usd::new(amount.clamp(Decimal::ZERO, Usd::LIMIT)).unwrap_or_default()
}

const fn tokens(usage: &Usage) -> TokenUsage {
    TokenUsage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        cache_read_tokens: usage.cache_read,
        cache_write_tokens: usage.cache_write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_per_model_and_the_window_is_a_snapshot() {
        let mut meters = Meters::default();
        let usage = Usage { input: 10, output: 2, cache_read: 3, cache_write: 4 };
        meters.add("one", "m/x", &usage, None);
        meters.add("one", "m/x", &usage, None);
        meters.add("one", "other", &usage, None);
        let window = Window { tokens: 805, limit: 1000 };
        let event = update("c", &meters, "one/m/x", window).unwrap().unwrap();
        let RawEvent::UsageUpdate(update) = event else { panic!("another event") };
        assert_eq!((update.meter_id.as_str(), update.model_id.as_str()), ("native-c", "m/x"));
        assert_eq!((update.token_usage.input_tokens, update.token_usage.cache_write_tokens), (20, 8));
        assert_eq!(update.context_window.unwrap().usage.input_tokens, 805);
        assert!(window.is_at(80) && !window.is_at(81));
        assert_eq!(window.nearing(), RawEvent::ContextNearingLimit { usage_percent: "80.50".into() });
    }
}
