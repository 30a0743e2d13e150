//! Running totals by model, and the context window (decision 31). An agent reports the cost of its conversation so
//! far, and the tokens of each turn. Neither names a model, so the difference to the last report is attributed to the
//! current model.
//!
//! The cost of a turn is, by preference: the cost that the agent reports; its tokens at the model's price; or an
//! estimate from the context window, which agents report with each model call. Most agents report the first two only
//! at the end of a turn. Until then, only the estimate decides whether the run may continue. It is published as spend
//! only if the agent reports neither.
//!
//! The estimate of a call is the cost of reading the last reported context and the bytes added since. A later report of
//! the same call replaces its estimate.

use std::sync::Arc;

use pilothouse_agent::message::Usage;
use pilothouse_agent::model::price::Price;
use pilothouse_agent::model::registry::ModelRegistry;
use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{MeterId, Usd};
use pilothouse_wire::RawEvent;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agents::Metering;
use crate::kit::usage::{self, Window, usd};

/// Assumed bytes per token, for agents that report no tokens.
const BYTES_A_TOKEN: u64 = 3;
/// Assumed ratio of the prices of output and input tokens, where no price is known.
const OUTPUT_RATIO: u64 = 5;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Totals {
    by_model: usage::Totals,
    /// The last total that the agent reported.
    reported_usd: Usd,
    /// Estimated cost of the model calls since the agent last reported the usage of a turn.
    #[serde(default)]
    estimated_usd: Usd,
    /// Ratio of the agent's report to the estimate for the same calls. `None` before its first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calibration: Option<Decimal>,
    /// Tokens of the conversation by the last report. The next model call reads them.
    #[serde(default)]
    context: u64,
    /// Tokens by which each call of the last turn added to the context, if the agent reports only its turns.
    #[serde(default)]
    growth: u64,
    /// Dollars per million input tokens of a model without a price, by the last cost that the agent reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    learned: Option<Decimal>,
}

impl Totals {
    /// Cost of the conversation over all models.
    pub(super) fn spent(&self) -> Usd {
        usage::cost(&self.by_model)
    }
}

/// The unit for which an agent reports tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Tokens {
    #[default]
    Nothing,
    /// Each turn, or an estimate for it.
    Turns,
    /// Each model call. Reports for a turn repeat the same tokens.
    Calls,
}

/// What an agent has reported about its conversation.
#[derive(Debug, Default)]
struct Reported {
    cost: bool,
    tokens: Tokens,
    /// Whether a turn has ended. An agent that has not reported a value by then never reports it.
    turn_end: bool,
}

/// The estimate of a call that is not reported.
#[derive(Debug, Clone, Copy)]
struct Guess {
    usd: Usd,
    tokens: u64,
    /// Bytes that the call read and no report includes.
    read: u64,
}

#[derive(Debug)]
pub(super) struct Meter {
    id: Option<MeterId>,
    model: String,
    totals: Totals,
    window: Option<(u64, u64)>,
    /// The fill level that was published last.
    published: Option<u64>,
    warn_at_percent: u8,
    warned: bool,
    /// The reports that are expected from the agent.
    metering: Metering,
    reported: Reported,
    prices: Arc<ModelRegistry>,
    price: Option<Price>,
    /// Whether the next report of the window belongs to a new model call. `None` before the first turn, while an agent
    /// repeats earlier updates.
    call_follows: Option<bool>,
    /// Bytes added to the conversation since its context was reported.
    unreported: u64,
    /// The estimate of the last model call, until the agent reports the call.
    guessed: Option<Guess>,
    /// Model calls of the turn.
    calls: u64,
    /// Tokens that the first of them read, by its estimate.
    first_call: u64,
    /// Input tokens since the last reported cost, by the estimate. An output token counts as several.
    estimated_tokens: u64,
    /// The estimate of an earlier sidecar that no turn has charged yet.
    carried_estimate: Usd,
}

impl Meter {
    /// The meter of a conversation, continuing from these totals.
    pub(super) fn new(conversation: &str, totals: Totals, model: &str, warn_at_percent: u8) -> Self {
        let reported = Reported { cost: !totals.reported_usd.is_zero(), ..Reported::default() };
        Self {
            id: MeterId::parse(conversation).ok(),
            model: model.to_owned(),
            carried_estimate: totals.estimated_usd,
            totals,
            window: None,
            published: None,
            warn_at_percent,
            warned: false,
            metering: Metering::UNKNOWN,
            reported,
            prices: Arc::default(),
            price: None,
            call_follows: None,
            unreported: 0,
            guessed: None,
            calls: 0,
            first_call: 0,
            estimated_tokens: 0,
        }
    }

    pub(super) fn priced(mut self, prices: Arc<ModelRegistry>, metering: Metering) -> Self {
        self.prices = prices;
        self.metering = metering;
        self.price = self.price_of(&self.model);
        if self.totals.context == 0 {
            self.totals.context = metering.instructions;
        }
        self
    }

    fn price_of(&self, model: &str) -> Option<Price> {
        let estimated_as = || self.prices.price(self.metering.estimated_as?);
        self.prices.price(model).or_else(estimated_as)
    }

    /// Sets the current model.
    pub(super) fn model(&mut self, model: &str) {
        if self.model != model {
            self.totals.learned = None;
        }
        model.clone_into(&mut self.model);
        self.price = self.price_of(model);
    }

    fn estimation_price(&self) -> Option<Price> {
        let learned = |input: Decimal| Price {
            input,
            output: input * Decimal::from(OUTPUT_RATIO),
            cache_read: input,
            cache_write: input,
            tiers: &[],
        };
        self.price.or_else(|| self.totals.learned.map(learned))
    }

    pub(super) const fn turn_begins(&mut self) {
        (self.calls, self.first_call, self.guessed) = (0, 0, None);
        self.model_call_follows();
    }

    /// Records that a prompt or a tool result goes to the model, so that a new call follows.
    pub(super) const fn model_call_follows(&mut self) {
        self.call_follows = Some(true);
    }

    /// Counts bytes that were added to the conversation by the owner, the agent or a tool.
    pub(super) const fn hears(&mut self, bytes: usize) {
        self.unreported = self.unreported.saturating_add(bytes as u64);
    }

    /// Counts a tool result. Some agents do not report it; then the average growth per call of the last turn counts.
    pub(super) fn hears_result(&mut self, bytes: usize) {
        let usual = self.totals.growth.saturating_mul(BYTES_A_TOKEN);
        self.unreported = self.unreported.saturating_add(usual.max(bytes as u64));
    }

    /// Estimated input tokens of the next model call.
    const fn next_input(&self) -> u64 {
        self.totals.context.saturating_add(self.unreported / BYTES_A_TOKEN)
    }

    /// Handles a response of the model. The agent may not report this call within the turn, so the call is estimated
    /// from the last context and the bytes added since.
    pub(super) fn model_answers(&mut self) {
        if self.call_follows == Some(true) {
            let (before, tokens) = (self.totals.estimated_usd, self.estimated_tokens);
            self.estimate_call(self.next_input());
            self.guessed = Some(Guess {
                usd: self.totals.estimated_usd.excess_over(before),
                tokens: self.estimated_tokens.saturating_sub(tokens),
                read: self.unreported,
            });
        }
    }

    /// Handles the reported context of a call. If the last call was estimated, the report concerns that call, even if
    /// its tool has returned meanwhile; otherwise the current or next call.
    fn reports_call(&mut self, used: u64) {
        let Some(guess) = self.guessed.take() else {
            self.unreported = 0;
            return self.estimate_call(used);
        };
        let follows = self.call_follows;
        self.totals.estimated_usd = self.totals.estimated_usd.excess_over(guess.usd);
        self.estimated_tokens = self.estimated_tokens.saturating_sub(guess.tokens);
        self.calls = self.calls.saturating_sub(1);
        self.unreported = self.unreported.saturating_sub(guess.read);
        self.call_follows = Some(true);
        self.estimate_call(used);
        self.call_follows = follows;
    }

    /// The estimated cost of the next model call, if one follows. `follows`: a tool runs or is about to run.
    pub(super) fn next_call(&self, follows: bool) -> Usd {
        let Some(price) = self.estimation_price() else { return Usd::ZERO };
        if self.totals.context == 0 || !(follows || self.call_follows == Some(true)) {
            return Usd::ZERO;
        }
        let hidden = if self.call_follows == Some(true) { 0 } else { self.totals.growth };
        let usage = Usage { input: self.next_input().saturating_add(hidden), ..Usage::default() };
        self.calibrated(price.of((&usage).into()))
    }

    fn calibrated(&self, estimate: Decimal) -> Usd {
        let ratio = self.totals.calibration.filter(|_| self.price.is_some()).unwrap_or(Decimal::ONE);
        Usd::new(estimate * ratio).unwrap_or_default()
    }

    /// Cost of the conversation, as reported by the agent.
    pub(super) fn spent(&self) -> Usd {
        self.totals.spent()
    }

    /// Estimated cost of model calls that the agent has not reported yet.
    pub(super) fn estimate(&self) -> Usd {
        self.calibrated(self.totals.estimated_usd.as_decimal())
    }

    /// Whether the agent is known to report neither its cost nor tokens that have a price.
    pub(super) fn is_unmetered(&self) -> bool {
        let expected = match self.metering.reports_cost {
            Some(true) => true,
            Some(false) => self.price.is_some() && !self.reported.turn_end,
            None => !self.reported.turn_end,
        };
        !self.has_cost() && !expected
    }

    /// The state for a later run.
    pub(super) const fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(super) const fn has_cost(&self) -> bool {
        self.reported.cost
            || (self.price.is_some()
                && (!matches!(self.reported.tokens, Tokens::Nothing) || self.has_window()))
    }

    pub(super) const fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// Handles a `usage_update`: the window and, if present, the conversation's cost so far.
    pub(super) fn update(&mut self, update: &Value) -> Vec<RawEvent> {
        if let Some(model) = crate::kit::json::text_at(update, &["_meta", "_claude/model"]) {
            self.model(model);
        }
        let count = |key| update.get(key).and_then(Value::as_u64);
        if let (Some(used), Some(size)) = (count("used"), count("size").filter(|size| *size > 0)) {
            self.reports_call(used);
            self.window = Some((used, size));
            self.totals.context = used;
        }
        let dollars = crate::kit::json::text_at(update, &["cost", "currency"])
            .is_none_or(|it| it.eq_ignore_ascii_case("usd"));
        let amount = update.get("cost").and_then(|cost| cost.get("amount")).filter(|_| dollars);
        self.reported.cost |= amount.is_some();
        let spent = amount.is_some_and(|amount| self.costs(usd(Some(amount))));
        if !spent && !self.window_moved() {
            return Vec::new();
        }
        self.emit()
    }

    /// Handles the usage of a turn, from the response to its prompt: `usage`, or the quota if the agent reports only
    /// that.
    pub(super) fn turn(&mut self, response: &Value) -> Vec<RawEvent> {
        self.reported.turn_end = true;
        let published = self.turn_tokens(response);
        if !self.has_window() && !self.reported.cost && self.reported.tokens == Tokens::Nothing {
            // An agent without reports is charged only the estimate of an earlier sidecar, which may have had some.
            self.totals.estimated_usd = self.totals.estimated_usd.min(self.carried_estimate);
        }
        self.carried_estimate = Usd::ZERO;
        self.guessed = None;
        if !self.reported.cost
            && self.price.is_some()
            && self.metering.reports_cost != Some(true)
            && !self.totals.estimated_usd.is_zero()
        {
            // Reports of single calls will not follow.
            self.reported.tokens = Tokens::Turns;
            let estimate = std::mem::take(&mut self.totals.estimated_usd);
            self.totals.by_model.entry(self.model.clone()).or_default().cost_usd += estimate;
            return self.emit();
        }
        published
    }

    /// Adds the usage of a model call from `_meta.usage` of its text, as qwen reports it. The input includes cached tokens,
    /// and only the total includes thoughts.
    pub(super) fn call(&mut self, usage: &Value) -> Vec<RawEvent> {
        let count = |key| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (input, cached) = (count("inputTokens"), count("cachedReadTokens"));
        self.reported.tokens = Tokens::Calls;
        let output = count("outputTokens").max(count("totalTokens").saturating_sub(input));
        if input > 0 {
            self.totals.context = input.saturating_add(output);
            let read = self.guessed.map_or(self.unreported, |guess| guess.read);
            self.unreported = self.unreported.saturating_sub(read);
            if self.guessed.is_none() && self.call_follows == Some(true) {
                // The usage precedes the text of its call.
                self.call_follows = Some(false);
            }
        }
        self.add(TokenUsage {
            input_tokens: input.saturating_sub(cached),
            output_tokens: output,
            cache_read_tokens: cached,
            cache_write_tokens: 0,
        })
    }

    /// Derives the context from the tokens of a turn, for an agent that does not report it. All calls of a turn read what the first
    /// one read, and each adds to that.
    fn learn_context(&mut self, tokens: TokenUsage) {
        let input = [tokens.cache_read_tokens, tokens.cache_write_tokens]
            .iter()
            .fold(tokens.input_tokens, |sum, more| sum.saturating_add(*more));
        if self.has_window() || input == 0 {
            return;
        }
        let calls = self.calls.max(1);
        let average = input / calls;
        let first = if calls == 1 { input } else { self.first_call.min(average) };
        let pairs = calls.saturating_mul(calls - 1);
        let added = input.saturating_sub(first.saturating_mul(calls)).saturating_mul(2);
        self.totals.growth = added.checked_div(pairs).unwrap_or(self.totals.growth);
        let last = if calls == 1 { 0 } else { self.totals.growth.saturating_mul(calls - 1) };
        self.totals.context = first.saturating_add(last).saturating_add(tokens.output_tokens / calls);
        self.unreported = 0;
    }

    fn turn_tokens(&mut self, response: &Value) -> Vec<RawEvent> {
        let quota = || response.get("_meta")?.get("quota")?.get("token_count");
        let usage = response.get("usage").filter(|usage| usage.is_object()).or_else(quota);
        let Some(usage) = usage.filter(|_| self.reported.tokens != Tokens::Calls) else {
            return Vec::new();
        };
        let count = |key| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
        let tokens = TokenUsage {
            input_tokens: count("inputTokens").max(count("input_tokens")),
            output_tokens: count("outputTokens")
                .max(count("output_tokens"))
                .saturating_add(count("thoughtTokens")),
            cache_read_tokens: count("cachedReadTokens"),
            cache_write_tokens: count("cachedWriteTokens"),
        };
        self.learn_context(tokens);
        self.add(tokens)
    }

    /// Adds tokens to the current model, and their price if the agent reports no cost.
    fn add(&mut self, tokens: TokenUsage) -> Vec<RawEvent> {
        if tokens.total() == 0 {
            return Vec::new();
        }
        if self.reported.tokens == Tokens::Nothing {
            self.reported.tokens = Tokens::Turns;
        }
        let total = self.totals.by_model.entry(self.model.clone()).or_default();
        if let Some(price) =
            self.price.filter(|_| !self.reported.cost && self.metering.reports_cost != Some(true))
        {
            total.cost_usd += Usd::new(price.of((&usage_of(tokens)).into())).unwrap_or_default();
            self.totals.estimated_usd = Usd::ZERO;
            self.guessed = None;
        }
        let kept = &mut self.totals.by_model.entry(self.model.clone()).or_default().tokens;
        *kept = kept.plus(tokens);
        self.emit()
    }

    /// Fill level of the window in percent.
    pub(super) fn percent(&self) -> Option<u64> {
        let (used, size) = self.window?;
        Some(used.saturating_mul(100) / size)
    }

    /// Handles the agent's total. Returns whether anything was spent. If the total is below the last one, the agent
    /// has restarted its count, and all of it is new spend.
    fn costs(&mut self, total: Usd) -> bool {
        let since = if total < self.totals.reported_usd {
            total
        } else {
            total.excess_over(self.totals.reported_usd)
        };
        self.totals.reported_usd = total;
        self.guessed = None;
        let estimated = std::mem::take(&mut self.totals.estimated_usd).as_decimal();
        if !estimated.is_zero() && !since.is_zero() {
            let ratio = since.as_decimal() / estimated;
            self.totals.calibration = Some(ratio.clamp(Decimal::new(1, 1), Decimal::TEN).round_dp(6));
        }
        let tokens = std::mem::take(&mut self.estimated_tokens);
        if self.price.is_none() && tokens > 0 && !since.is_zero() {
            let million = Decimal::from(1_000_000);
            self.totals.learned = Some((since.as_decimal() * million / Decimal::from(tokens)).round_dp(6));
        }
        self.totals.by_model.entry(self.model.clone()).or_default().cost_usd += since;
        !since.is_zero()
    }

    /// Estimates a model call from the fill level of the window: a new call reads all of it, and growth within a call
    /// is output. Nothing is assumed to be read from a cache, because that is not reported; a later report of the
    /// agent corrects the estimate.
    fn estimate_call(&mut self, used: u64) {
        let Some(new) = self.call_follows else { return };
        self.call_follows = Some(false);
        let before = self.window.map_or(0, |(used, _)| used);
        let usage = if new {
            Usage { input: used, ..Usage::default() }
        } else {
            Usage { output: used.saturating_sub(before), ..Usage::default() }
        };
        if new {
            self.calls = self.calls.saturating_add(1);
            if self.calls == 1 {
                self.first_call = used;
            }
        }
        let tokens = usage.input.saturating_add(usage.output.saturating_mul(OUTPUT_RATIO));
        self.estimated_tokens = self.estimated_tokens.saturating_add(tokens);
        let Some(price) = self.estimation_price() else { return };
        self.totals.estimated_usd += Usd::new(price.of((&usage).into())).unwrap_or_default();
    }

    /// The window is reported with every message of the model. Only a change of at least one percent is published.
    fn window_moved(&self) -> bool {
        let Some((used, size)) = self.window else { return false };
        self.published.is_none_or(|published| published.abs_diff(used).saturating_mul(100) >= size)
    }

    fn emit(&mut self) -> Vec<RawEvent> {
        let Some(meter_id) = self.id.clone() else { return Vec::new() };
        let total = self.totals.by_model.get(&self.model).copied().unwrap_or_default();
        self.published = self.window.map(|(used, _)| used);
        let window = self.window.map(|(tokens, limit)| Window { tokens, limit }.reported());
        let mut events = vec![total.event(meter_id, self.model.clone(), None, window)];
        events.extend(self.warn());
        events
    }

    /// Publishes the context warning once, and again only after the window was emptier.
    fn warn(&mut self) -> Option<RawEvent> {
        let (tokens, limit) = self.window?;
        Window { tokens, limit }.warning(self.warn_at_percent, &mut self.warned)
    }
}

const fn usage_of(tokens: TokenUsage) -> Usage {
    Usage {
        input: tokens.input_tokens,
        output: tokens.output_tokens,
        cache_read: tokens.cache_read_tokens,
        cache_write: tokens.cache_write_tokens,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn published(events: &[RawEvent]) -> Vec<String> {
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
        assert_eq!(published(&meter.update(&cost(0.1, 5))), ["a 0.1 0"]);
        meter.model("b");
        assert_eq!(published(&meter.update(&cost(0.25, 6))), ["b 0.15 0"]);
        assert_eq!(
            published(&meter.turn(&json!({"usage": {"inputTokens": 3, "outputTokens": 4}}))),
            ["b 0.15 7"]
        );
        // A new process starts its count at zero.
        let mut meter = Meter::new("s", meter.totals().clone(), "b", 80);
        assert_eq!(published(&meter.update(&cost(0.05, 6))), ["b 0.2 7"]);
        assert_eq!(published(&meter.update(&cost(0.05, 6))), Vec::<String>::new());
    }

    #[test]
    fn small_window_changes_are_silent_and_a_full_one_warns_once() {
        let mut meter = Meter::new("s", Totals::default(), "a", 80);
        let window = |used: u64| json!({"used": used, "size": 1000});
        assert_eq!(meter.update(&window(100)).len(), 1);
        assert!(meter.update(&window(105)).is_empty());
        assert_eq!(published(&meter.update(&window(801))), ["a 0 0", "near 80.10"]);
        assert_eq!(published(&meter.update(&window(900))), ["a 0 0"]);
        assert_eq!(meter.percent(), Some(90));
    }

    #[test]
    fn tokens_are_counted_once_from_every_source() {
        let mut meter = Meter::new("s", Totals::default(), "a", 80);
        let quota = json!({"quota": {"token_count": {"input_tokens": 5, "output_tokens": 2}}});
        assert_eq!(published(&meter.turn(&json!({"stopReason": "end_turn", "_meta": quota}))), ["a 0 7"]);
        assert_eq!(published(&meter.turn(&json!({"usage": {"inputTokens": 1}, "_meta": quota}))), ["a 0 8"]);
        assert!(meter.turn(&json!({"stopReason": "cancelled"})).is_empty());
    }

    /// Three dollars per million input tokens, fifteen per million output tokens.
    fn priced(totals: Totals, reports_cost: Option<bool>) -> Meter {
        let metering = Metering { reports_cost, estimated_as: None, instructions: 0 };
        let registry = ModelRegistry::from_env(|_| None);
        Meter::new("s", totals, "claude-sonnet-4-5", 80).priced(Arc::new(registry), metering)
    }

    fn window(used: u64) -> Value {
        json!({"used": used, "size": 200_000})
    }

    #[test]
    fn tokens_are_priced_when_an_agent_reports_no_cost() {
        let mut meter = priced(Totals::default(), Some(false));
        assert!(!meter.is_unmetered(), "its future reports have a price");
        let response = json!({"usage": {"inputTokens": 1_000_000, "outputTokens": 100_000}});
        assert!(!meter.has_cost(), "nothing was reported yet");
        assert_eq!(published(&meter.turn(&response)), ["claude-sonnet-4-5 4.5 1100000"]);
        assert!(!meter.is_unmetered() && meter.has_cost());
        // Once the agent reports its cost, tokens are not priced.
        let mut meter = priced(Totals::default(), None);
        meter.update(&cost(0.25, 5));
        assert_eq!(published(&meter.turn(&response)), ["claude-sonnet-4-5 0.25 1100000"]);
    }

    #[test]
    fn calls_that_an_agent_reports_are_priced_at_once() {
        let mut meter = priced(Totals::default(), Some(false));
        let call = json!({"inputTokens": 110_000, "cachedReadTokens": 10_000, "outputTokens": 1_000, "totalTokens": 112_000});
        assert_eq!(published(&meter.call(&call)), ["claude-sonnet-4-5 0.333 112000"]);
        assert_eq!(published(&meter.call(&call)), ["claude-sonnet-4-5 0.666 224000"]);
        let response = json!({"usage": {"inputTokens": 220_000, "outputTokens": 4_000}});
        assert!(meter.turn(&response).is_empty(), "the same tokens are counted once");
        assert!(meter.has_cost());
    }

    #[test]
    fn calls_are_estimated_by_the_window_until_the_agent_reports() {
        let mut meter = priced(Totals::default(), Some(true));
        meter.model_call_follows();
        meter.update(&window(10_000));
        meter.update(&window(11_000));
        assert_eq!(meter.estimate().to_string(), "0.045", "10,000 read, 1,000 written");
        meter.model_call_follows();
        meter.update(&window(20_000));
        assert_eq!((meter.estimate().to_string(), meter.spent()), ("0.105".to_owned(), Usd::ZERO));
        // Most of the context was read from a cache, and later estimates take that into account.
        meter.update(&json!({"cost": {"amount": 0.021, "currency": "USD"}}));
        assert_eq!((meter.estimate(), meter.spent().to_string()), (Usd::ZERO, "0.021".to_owned()));
        meter.model_call_follows();
        meter.update(&window(10_000));
        assert_eq!(meter.estimate().to_string(), "0.006");
        // If an agent names its model by an alias, a model of the same vendor is used for the estimate.
        let metering =
            Metering { reports_cost: Some(true), estimated_as: Some("claude-sonnet-4-5"), instructions: 0 };
        let registry = Arc::new(ModelRegistry::from_env(|_| None));
        let mut meter = Meter::new("s", Totals::default(), "default", 80).priced(registry, metering);
        meter.model_call_follows();
        meter.update(&window(10_000));
        assert_eq!(meter.estimate().to_string(), "0.03");
    }

    #[test]
    fn calls_that_nobody_reports_are_estimated_by_what_was_said() {
        let mut meter = priced(Totals::default(), Some(true));
        meter.update(&window(10_000));
        for call in 1_u32..=3 {
            meter.hears(30_000);
            meter.model_call_follows();
            meter.model_answers();
            meter.model_answers();
            let tokens = Decimal::from(10_000 * call + 5_000 * call * (call + 1));
            assert_eq!(meter.estimate().as_decimal(), (tokens * Decimal::new(3, 6)).normalize(), "{call}");
        }
        // A report of the last call replaces its provisional estimate.
        meter.update(&window(20_000));
        assert_eq!(meter.estimate().to_string(), "0.21", "20,000 and 30,000 guessed, 20,000 reported");
        // A call that is reported before its response is not estimated again.
        meter.model_call_follows();
        meter.update(&window(20_000));
        meter.model_answers();
        assert_eq!(meter.estimate().to_string(), "0.27");
        // An agent that reports neither cost nor window is unmetered in spite of the estimate.
        let mut meter = priced(Totals::default(), None);
        meter.hears(30_000);
        meter.model_call_follows();
        meter.model_answers();
        assert_eq!(meter.estimate().to_string(), "0.03");
        assert!(meter.turn(&json!({})).is_empty() && meter.is_unmetered() && meter.spent().is_zero());
    }

    #[test]
    fn report_after_the_tool_replaces_the_guess_of_its_call() {
        let mut meter = priced(Totals::default(), Some(true));
        meter.turn_begins();
        meter.update(&window(10_000));
        meter.model_answers();
        assert_eq!(meter.estimate().to_string(), "0.03", "it came before the answer");
        for used in [10_000_u64, 20_000] {
            meter.turn_begins();
            meter.model_answers();
            meter.hears_result(30_000);
            meter.model_call_follows();
            meter.update(&window(used));
        }
        assert_eq!(meter.estimate().to_string(), "0.12", "three calls, of 10,000, 10,000 and 20,000");
        // The report does not include the tool's result, which the next call reads.
        assert_eq!(meter.next_call(false).to_string(), "0.09");
        meter.model_answers();
        assert_eq!(meter.estimate().to_string(), "0.21");
    }

    #[test]
    fn context_is_derived_from_the_tokens_of_turns() {
        let mut meter = priced(Totals::default(), Some(false));
        let tokens = |input: u64| json!({"usage": {"inputTokens": input}});
        meter.turn_begins();
        meter.model_answers();
        assert!(meter.estimate().is_zero(), "nothing is known of its instructions");
        meter.turn(&tokens(10_000));
        // The tool result is not reported, and adds 2,000 tokens.
        let two_calls = |meter: &mut Meter| {
            meter.turn_begins();
            meter.model_answers();
            meter.hears_result(0);
            meter.model_call_follows();
            meter.model_answers();
        };
        two_calls(&mut meter);
        assert_eq!(meter.estimate().to_string(), "0.06");
        meter.turn(&tokens(22_000));
        assert_eq!((meter.spent().to_string(), meter.estimate()), ("0.096".to_owned(), Usd::ZERO));
        // The totals keep the ratio for the next sidecar.
        let mut meter = priced(meter.totals().clone(), Some(false));
        two_calls(&mut meter);
        assert_eq!(meter.estimate().to_string(), "0.078", "12,000 and 14,000");
        assert_eq!(meter.next_call(false), Usd::ZERO, "none follows the answer");
        assert_eq!(meter.next_call(true).to_string(), "0.048", "16,000 if a tool runs");
        // A turn without a report, such as an interrupted one, is charged by its estimate.
        meter.turn(&tokens(1));
        let before = meter.spent();
        two_calls(&mut meter);
        let estimate = meter.estimate();
        assert!(!estimate.is_zero());
        meter.turn(&json!({"stopReason": "cancelled"}));
        assert_eq!(meter.spent(), before + estimate);
    }

    #[test]
    fn price_is_learned_from_the_reported_cost() {
        let metering = Metering { reports_cost: Some(true), estimated_as: None, instructions: 5_000 };
        let mut meter = Meter::new("s", Totals::default(), "m", 80).priced(Arc::default(), metering);
        meter.turn_begins();
        assert!(meter.next_call(false).is_zero(), "neither table nor report has a price");
        meter.update(&window(10_000));
        assert!(meter.estimate().is_zero());
        meter.update(&json!({"cost": {"amount": 0.05, "currency": "USD"}}));
        meter.turn(&json!({"stopReason": "end_turn"}));
        meter.turn_begins();
        assert_eq!(meter.next_call(false).to_string(), "0.05");
        meter.update(&window(10_000));
        assert_eq!((meter.estimate().to_string(), meter.spent().to_string()), ("0.05".into(), "0.05".into()));
        meter.model("another");
        assert!(meter.next_call(true).is_zero());
    }

    #[test]
    fn instructions_count_before_the_first_report() {
        let metering = Metering { reports_cost: Some(true), estimated_as: None, instructions: 9_000 };
        let registry = Arc::new(ModelRegistry::from_env(|_| None));
        let mut meter =
            Meter::new("s", Totals::default(), "claude-sonnet-4-5", 80).priced(registry, metering);
        meter.hears(3_000);
        meter.turn_begins();
        assert_eq!(meter.next_call(false).to_string(), "0.03");
        meter.model_answers();
        assert_eq!(meter.estimate().to_string(), "0.03");
    }

    #[test]
    fn estimate_is_charged_without_a_better_source() {
        let mut meter = priced(Totals::default(), Some(false));
        meter.update(&window(50_000));
        assert!(meter.estimate().is_zero(), "no turn has begun: the agent repeats earlier updates");
        meter.model_call_follows();
        meter.update(&window(100_000));
        // After a kill of the sidecar, the next sidecar restores the estimate.
        let mut meter = priced(meter.totals().clone(), Some(false));
        assert_eq!(meter.estimate().to_string(), "0.3");
        assert_eq!(published(&meter.turn(&json!({"stopReason": "end_turn"}))), ["claude-sonnet-4-5 0.3 0"]);
        assert!(meter.estimate().is_zero() && !meter.is_unmetered());
    }

    #[test]
    fn agent_without_price_reports_is_unmetered() {
        let unpriced = |reports_cost| {
            let metering = Metering { reports_cost, estimated_as: None, instructions: 0 };
            Meter::new("s", Totals::default(), "m", 80).priced(Arc::default(), metering)
        };
        assert!(unpriced(Some(false)).is_unmetered(), "known before its first turn");
        assert!(!unpriced(Some(true)).is_unmetered() && !unpriced(None).is_unmetered());
        let mut meter = unpriced(None);
        meter.update(&window(5));
        meter.turn(&json!({"usage": {"inputTokens": 3}}));
        assert!(meter.is_unmetered(), "its tokens have no price");
        meter.update(&cost(0.1, 5));
        assert!(!meter.is_unmetered());
    }

    #[test]
    fn other_currencies_are_not_counted_as_dollars() {
        let mut meter = Meter::new("s", Totals::default(), "a", 80);
        assert!(meter.update(&json!({"cost": {"amount": 3, "currency": "EUR"}})).is_empty());
    }
}
