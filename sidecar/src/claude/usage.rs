//! Running totals and the context window (ruling 31).

use std::collections::BTreeMap;

use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{MeterId, Usd};
use pilothouse_wire::event::{RawContextWindow, RawEvent, UsageUpdate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json::{count, text};
use super::options::Options;
use super::translated::Translated;

/// What one model cost in a conversation so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelTotals {
    /// Dollars.
    pub cost_usd: Usd,
    /// Tokens.
    pub tokens: TokenUsage,
}

impl ModelTotals {
    fn plus(self, other: Self) -> Self {
        let (a, b) = (self.tokens, other.tokens);
        Self {
            cost_usd: self.cost_usd + other.cost_usd,
            tokens: TokenUsage {
                input_tokens: a.input_tokens.saturating_add(b.input_tokens),
                output_tokens: a.output_tokens.saturating_add(b.output_tokens),
                cache_read_tokens: a.cache_read_tokens.saturating_add(b.cache_read_tokens),
                cache_write_tokens: a.cache_write_tokens.saturating_add(b.cache_write_tokens),
            },
        }
    }

    /// What this is more than `other`.
    fn beyond(self, other: Self) -> Self {
        let (a, b) = (self.tokens, other.tokens);
        Self {
            cost_usd: self.cost_usd.excess_over(other.cost_usd),
            tokens: TokenUsage {
                input_tokens: a.input_tokens.saturating_sub(b.input_tokens),
                output_tokens: a.output_tokens.saturating_sub(b.output_tokens),
                cache_read_tokens: a.cache_read_tokens.saturating_sub(b.cache_read_tokens),
                cache_write_tokens: a.cache_write_tokens.saturating_sub(b.cache_write_tokens),
            },
        }
    }
}

/// What the runtime says of each model (`modelUsage`).
fn models(reported: Option<&Value>) -> impl Iterator<Item = (String, ModelTotals)> {
    reported.and_then(Value::as_object).into_iter().flatten().map(|(model, usage)| {
        let tokens = TokenUsage {
            input_tokens: count(usage, "inputTokens").unwrap_or(0),
            output_tokens: count(usage, "outputTokens").unwrap_or(0),
            cache_read_tokens: count(usage, "cacheReadInputTokens").unwrap_or(0),
            cache_write_tokens: count(usage, "cacheCreationInputTokens").unwrap_or(0),
        };
        (model.clone(), ModelTotals { cost_usd: usd(usage.get("costUSD")), tokens })
    })
}

/// The totals of a conversation, by model.
pub type Totals = BTreeMap<String, ModelTotals>;

/// The meter of one conversation.
#[derive(Debug)]
pub(super) struct Meter {
    /// The runtime's id of the conversation; it names the meter.
    session_id: Option<String>,
    /// None: the conversation was taken up, and the runtime did not yet say what it cost.
    totals: Option<Totals>,
    /// What was spent before the runtime's process began to count.
    before: Totals,
    /// Context limits by model, as the runtime told them.
    limits: BTreeMap<String, u64>,
    default_limit: u64,
    /// The model of the main loop.
    main_model: Option<String>,
    /// What the main loop's last model call held.
    window: Option<TokenUsage>,
    /// The main loop's message that is being streamed; its final usage comes with its `message_delta`.
    streaming: Option<String>,
    /// The main loop's last message whose usage was taken.
    last_message: Option<String>,
    warn_at_percent: Option<u8>,
    warned: bool,
}

impl Meter {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            session_id: None,
            totals: options.known_totals.clone(),
            before: Totals::new(),
            limits: BTreeMap::new(),
            default_limit: options.default_context_limit.max(1),
            main_model: None,
            window: None,
            streaming: None,
            last_message: None,
            warn_at_percent: options.warn_at_percent,
            warned: false,
        }
    }

    pub(super) const fn totals(&self) -> Option<&Totals> {
        self.totals.as_ref()
    }

    pub(super) fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Takes note of the conversation that a line belongs to. A fork changes it; its totals go on from its parent's.
    pub(super) fn session(&mut self, id: &str) {
        if !id.is_empty() && self.session_id.as_deref() != Some(id) {
            self.session_id = Some(id.to_owned());
        }
    }

    pub(super) fn model(&mut self, model: &str) {
        self.main_model = Some(model.to_owned());
    }

    /// Whether the model ever answered in this conversation, as far as this translator saw.
    pub(super) const fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// A message of the main loop begins to be streamed.
    pub(super) fn message_start(&mut self, message: &Value) {
        self.streaming = text(message, "id").map(str::to_owned);
        self.take_message(message);
    }

    /// The streamed message is complete; `usage` corrects what its start said.
    pub(super) fn message_delta(&mut self, usage: &Value, out: &mut Translated) {
        let before = self.window;
        let window = self.window.get_or_insert_default();
        let correct = |key, field: &mut u64| {
            if let Some(tokens) = count(usage, key).filter(|tokens| *tokens > 0) {
                *field = tokens;
            }
        };
        correct("input_tokens", &mut window.input_tokens);
        correct("output_tokens", &mut window.output_tokens);
        correct("cache_read_input_tokens", &mut window.cache_read_tokens);
        correct("cache_creation_input_tokens", &mut window.cache_write_tokens);
        self.streaming = None;
        if before.is_some() {
            self.tell_window(out);
        }
    }

    /// A block of a whole message of the main loop. When the message is streamed, its end tells the window; else its
    /// first block does, whose `output_tokens` the runtime took at the message's beginning.
    pub(super) fn message(&mut self, message: &Value, out: &mut Translated) {
        let id = text(message, "id");
        if id.is_some() && (self.streaming.as_deref() == id || self.last_message.as_deref() == id) {
            return;
        }
        if self.take_message(message) {
            self.tell_window(out);
        }
    }

    fn take_message(&mut self, message: &Value) -> bool {
        let Some(usage) = message.get("usage").filter(|usage| usage.is_object()) else { return false };
        if let Some(model) = text(message, "model") {
            self.model(model);
        }
        self.last_message = text(message, "id").map(str::to_owned);
        self.window = Some(TokenUsage {
            input_tokens: count(usage, "input_tokens").unwrap_or(0),
            output_tokens: count(usage, "output_tokens").unwrap_or(0),
            cache_read_tokens: count(usage, "cache_read_input_tokens").unwrap_or(0),
            cache_write_tokens: count(usage, "cache_creation_input_tokens").unwrap_or(0),
        });
        true
    }

    /// The conversation was compacted to `tokens`; the next model call says it precisely.
    pub(super) const fn compacted(&mut self, tokens: u64) {
        self.window = Some(TokenUsage {
            input_tokens: tokens,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
        });
    }

    /// The totals of a result: one event a model, the window with the main loop's.
    pub(super) fn result(&mut self, result: &Value, out: &mut Translated) {
        let mut changed = self.take_models(result.get("modelUsage"));
        // A runtime that says only what the whole cost: the main loop's model carries it.
        let total = usd(result.get("total_cost_usd"));
        if changed.is_empty() && !total.is_zero() {
            let model = self.main_model.clone().unwrap_or_else(|| "unknown".to_owned());
            self.raise(&model, ModelTotals { cost_usd: total, tokens: TokenUsage::default() });
            changed.push(model);
        }
        self.tell_all(&changed, out);
    }

    /// The totals of the runtime's process between results: told where they grew.
    pub(super) fn session_totals(&mut self, session: &Value, out: &mut Translated) {
        let known = self.totals.clone().unwrap_or_default();
        let mut changed = self.take_models(session.get("model_usage"));
        let now = self.totals.as_ref();
        changed.retain(|model| now.and_then(|now| now.get(model)) != known.get(model));
        self.tell_all(&changed, out);
    }

    /// Another conversation begins, which has cost nothing.
    pub(super) fn begin_anew(&mut self) {
        self.session_id = None;
        self.totals = Some(Totals::new());
        self.before.clear();
        (self.window, self.streaming, self.last_message) = (None, None, None);
        self.warned = false;
    }

    /// A process begins to count, at what it says. Where that is less than what is known, it is counted on top.
    pub(super) fn process_begins(&mut self, session: &Value) {
        let reported: Totals = models(session.get("model_usage")).collect();
        self.before.clear();
        for (model, known) in self.totals.iter().flatten() {
            let reported = reported.get(model).copied().unwrap_or_default();
            let before = known.beyond(reported);
            if before != ModelTotals::default() {
                self.before.insert(model.clone(), before);
            }
        }
    }

    /// Takes what the runtime says of each model; the models.
    fn take_models(&mut self, reported: Option<&Value>) -> Vec<String> {
        for (model, usage) in reported.and_then(Value::as_object).into_iter().flatten() {
            if let Some(limit) = count(usage, "contextWindow").filter(|limit| *limit > 0) {
                self.limits.insert(model.clone(), limit);
            }
        }
        models(reported)
            .map(|(model, totals)| {
                self.raise(&model, totals);
                model
            })
            .collect()
    }

    fn tell_all(&mut self, changed: &[String], out: &mut Translated) {
        for model in changed {
            let window = if self.main_model.as_ref() == Some(model) { self.context() } else { None };
            self.tell(model, window, out);
        }
        self.warn(out);
    }

    fn raise(&mut self, model: &str, reported: ModelTotals) {
        let now = reported.plus(self.before.get(model).copied().unwrap_or_default());
        let entry = self.totals.get_or_insert_default().entry(model.to_owned()).or_default();
        entry.cost_usd = entry.cost_usd.max(now.cost_usd);
        entry.tokens = entry.tokens.max(now.tokens);
    }

    /// The window alone changed: the totals as far as they are known, which is up to the last result.
    fn tell_window(&mut self, out: &mut Translated) {
        if self.totals.is_some()
            && let Some(model) = self.main_model.clone()
        {
            self.tell(&model, self.context(), out);
        }
        self.warn(out);
    }

    fn tell(&self, model: &str, context_window: Option<RawContextWindow>, out: &mut Translated) {
        let Some(meter_id) = self.session_id.as_deref().and_then(|id| MeterId::parse(id).ok()) else {
            return;
        };
        let totals = self.totals.as_ref().and_then(|totals| totals.get(model)).copied().unwrap_or_default();
        out.push(RawEvent::UsageUpdate(UsageUpdate {
            meter_id,
            model_id: model.to_owned(),
            subagent_id: None,
            cost_usd: totals.cost_usd.to_string(),
            token_usage: totals.tokens,
            context_window,
        }));
    }

    fn context(&self) -> Option<RawContextWindow> {
        let limit = self.main_model.as_ref().and_then(|model| self.limits.get(model)).copied();
        self.window
            .map(|usage| RawContextWindow { usage, model_context_limit: limit.unwrap_or(self.default_limit) })
    }

    /// Tells once that the window is nearly full, and again only after it was emptier.
    fn warn(&mut self, out: &mut Translated) {
        let (Some(percent), Some(context)) = (self.warn_at_percent, self.context()) else { return };
        let hundredths = u128::from(context.usage.total()) * 10_000 / u128::from(context.model_context_limit);
        let near = hundredths >= u128::from(percent) * 100;
        if near && !self.warned {
            let usage_percent = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            out.push(RawEvent::ContextNearingLimit { usage_percent });
        }
        self.warned = near;
    }
}

/// A JSON number as dollars. Its text becomes a decimal and is never calculated with as a float. Rounded to a
/// trillionth of a dollar, it also loses what the runtime's own float sums left behind: `0.009570000000000002` is
/// `0.00957`. (What parsing a float can change lies below a trillionth for every amount under 4000 dollars.)
fn usd(number: Option<&Value>) -> Usd {
    match number {
        Some(Value::Number(number)) => number.to_string().parse().unwrap_or_default(),
        Some(Value::String(s)) => s.parse().unwrap_or_default(),
        _ => Usd::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_comes_from_the_text_of_the_number() {
        let number = |s: &str| usd(Some(&serde_json::from_str(s).unwrap())).to_string();
        assert_eq!(number("0.084861"), "0.084861");
        assert_eq!(number("0.009570000000000002"), "0.00957");
        assert_eq!(number("0.014384999999999998"), "0.014385");
        assert_eq!(number("1e-7"), "0.0000001");
        assert_eq!(number("0"), "0");
        assert_eq!(number("3999.123456789012"), "3999.123456789012");
        assert_eq!(number("-1"), "0");
    }
}
