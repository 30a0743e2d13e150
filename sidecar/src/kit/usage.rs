//! Usage meters (decision 31): totals of a conversation by model, and the fill level of its context window.

use std::collections::BTreeMap;

use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{MeterId, SubAgentId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{RawContextWindow, UsageUpdate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub type Totals = BTreeMap<String, ModelTotals>;

/// Cost of one model in a conversation so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelTotals {
    pub cost_usd: Usd,
    pub tokens: TokenUsage,
}

impl ModelTotals {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { cost_usd: self.cost_usd + other.cost_usd, tokens: self.tokens.plus(other.tokens) }
    }

    /// Never negative.
    pub(crate) fn beyond(self, other: Self) -> Self {
        Self {
            cost_usd: self.cost_usd.excess_over(other.cost_usd),
            tokens: self.tokens.increment_since(other.tokens),
        }
    }

    /// The event that publishes these totals.
    pub(crate) fn event(
        self,
        meter_id: MeterId,
        model_id: String,
        subagent_id: Option<SubAgentId>,
        context_window: Option<RawContextWindow>,
    ) -> RawEvent {
        RawEvent::UsageUpdate(UsageUpdate {
            meter_id,
            model_id,
            subagent_id,
            cost_usd: self.cost_usd.to_string(),
            token_usage: self.tokens,
            context_window,
        })
    }
}

pub(crate) fn cost(totals: &Totals) -> Usd {
    totals.values().map(|model| model.cost_usd).sum()
}

/// Converts a JSON number to dollars. Its text becomes a decimal, without floating-point arithmetic. Rounding to a
/// trillionth of a dollar removes errors of an agent's float sums: `0.009570000000000002` becomes `0.00957`. (Errors of
/// parsing a float are smaller for amounts under 4000 dollars.)
pub(crate) fn usd(number: Option<&Value>) -> Usd {
    match number {
        Some(Value::Number(number)) => number.to_string().parse().unwrap_or_default(),
        Some(Value::String(s)) => s.parse().unwrap_or_default(),
        _ => Usd::ZERO,
    }
}

/// A context window: its fill level and its size, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub tokens: u64,
    pub limit: u64,
}

impl Window {
    /// Fill level in hundredths of a percent.
    fn hundredths(self) -> u128 {
        u128::from(self.tokens) * 10_000 / u128::from(self.limit.max(1))
    }

    /// Whether the window is filled to at least `percent`.
    pub(crate) fn is_at(self, percent: u8) -> bool {
        self.hundredths() >= u128::from(percent) * 100
    }

    /// Fill level in percent, with two digits after the point.
    pub(crate) fn percent(self) -> String {
        let hundredths = self.hundredths();
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }

    /// The event that warns of a nearly full window.
    pub(crate) fn nearing(self) -> RawEvent {
        RawEvent::ContextNearingLimit { usage_percent: self.percent() }
    }

    /// A warning once the window is filled to at least `percent`, and again only after it was emptier, as `warned`
    /// records.
    pub(crate) fn warning(self, percent: u8, warned: &mut bool) -> Option<RawEvent> {
        let near = self.is_at(percent);
        let before = std::mem::replace(warned, near);
        (near && !before).then(|| self.nearing())
    }

    /// The window as an event reports it, for an agent that reports only the fill level.
    pub(crate) fn reported(self) -> RawContextWindow {
        RawContextWindow {
            usage: TokenUsage { input_tokens: self.tokens, ..TokenUsage::default() },
            model_context_limit: self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_parsed_from_the_text_of_the_number() {
        let number = |s: &str| usd(Some(&serde_json::from_str(s).unwrap())).to_string();
        assert_eq!(number("0.084861"), "0.084861");
        assert_eq!(number("0.009570000000000002"), "0.00957");
        assert_eq!(number("0.014384999999999998"), "0.014385");
        assert_eq!(number("1e-7"), "0.0000001");
        assert_eq!(number("0"), "0");
        assert_eq!(number("3999.123456789012"), "3999.123456789012");
        assert_eq!(number("-1"), "0");
    }

    #[test]
    fn window_warns_once_each_time_that_it_fills() {
        let mut warned = false;
        let mut warning = |tokens| Window { tokens, limit: 1000 }.warning(80, &mut warned);
        assert_eq!(warning(799), None);
        assert_eq!(warning(805), Some(RawEvent::ContextNearingLimit { usage_percent: "80.50".into() }));
        assert_eq!(warning(810), None);
        assert_eq!((warning(10), warning(800).is_some()), (None, true));
    }
}
