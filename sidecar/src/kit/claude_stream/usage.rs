//! Running totals and the context window (decision 31).

use std::collections::BTreeMap;

use pilothouse_domain::MeterId;
use pilothouse_domain::value::TokenUsage;
use pilothouse_wire::event::RawContextWindow;
use serde_json::Value;

use super::options::Options;
use super::totals::models;
use super::translated::Translated;
use crate::kit::json::{count, text};
use crate::kit::usage::{ModelTotals, Totals, Window, usd};

#[derive(Debug)]
pub(super) struct Meter {
    /// The runtime's id of the conversation. It names the meter.
    session_id: Option<String>,
    /// `None` for a resumed conversation until the runtime reports its cost.
    totals: Option<Totals>,
    /// Spend before the runtime's current process began to count.
    before: Totals,
    /// Context limits by model, as reported by the runtime.
    limits: BTreeMap<String, u64>,
    default_limit: u64,
    main_model: Option<String>,
    /// Token usage of the main loop's last model call.
    window: Option<TokenUsage>,
    /// The main loop's message that is being streamed. Its final usage comes with its `message_delta`.
    streaming: Option<String>,
    /// The main loop's last message whose usage was counted.
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

    /// Sets the conversation of a line. A fork changes it, and continues with the totals of its parent.
    pub(super) fn session(&mut self, id: &str) {
        if !id.is_empty() && self.session_id.as_deref() != Some(id) {
            self.session_id = Some(id.to_owned());
        }
    }

    pub(super) fn model(&mut self, model: &str) {
        self.main_model = Some(model.to_owned());
    }

    /// Whether the model has answered in this conversation since the start of this translator.
    pub(super) const fn has_window(&self) -> bool {
        self.window.is_some()
    }

    pub(super) fn message_start(&mut self, message: &Value) {
        self.streaming = text(message, "id").map(str::to_owned);
        self.take_message(message);
    }

    /// Handles the end of the streamed message. `usage` replaces the values from its start.
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
            self.emit_window(out);
        }
    }

    /// Handles a block of a complete message of the main loop. The first block reports the window, with the
    /// `output_tokens` from the start of the message. For a streamed message, its end does.
    pub(super) fn message(&mut self, message: &Value, out: &mut Translated) {
        let id = text(message, "id");
        if id.is_some() && (self.streaming.as_deref() == id || self.last_message.as_deref() == id) {
            return;
        }
        if self.take_message(message) {
            self.emit_window(out);
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

    /// Records a compaction to `tokens`. The next model call reports the exact value.
    pub(super) const fn compacted(&mut self, tokens: u64) {
        self.window = Some(TokenUsage {
            input_tokens: tokens,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
        });
    }

    /// Handles the totals of a result: one event per model, with the window on the main loop's.
    pub(super) fn result(&mut self, result: &Value, out: &mut Translated) {
        let mut changed = self.take_models(result.get("modelUsage"));
        // The runtime reported only a total cost: it is attributed to the main loop's model.
        let total = usd(result.get("total_cost_usd"));
        if changed.is_empty() && !total.is_zero() {
            let model = self.main_model.clone().unwrap_or_else(|| "unknown".to_owned());
            self.raise(&model, ModelTotals { cost_usd: total, tokens: TokenUsage::default() });
            changed.push(model);
        }
        self.emit_all(&changed, out);
    }

    /// Handles the totals of the runtime's process between results. Publishes the models whose totals grew.
    pub(super) fn session_totals(&mut self, session: &Value, out: &mut Translated) {
        let known = self.totals.clone().unwrap_or_default();
        let mut changed = self.take_models(session.get("model_usage"));
        let now = self.totals.as_ref();
        changed.retain(|model| now.and_then(|now| now.get(model)) != known.get(model));
        self.emit_all(&changed, out);
    }

    pub(super) fn begin_anew(&mut self) {
        self.session_id = None;
        self.totals = Some(Totals::new());
        self.before.clear();
        (self.window, self.streaming, self.last_message) = (None, None, None);
        self.warned = false;
    }

    /// Handles the counters at the start of a process. If they are below the known totals, adds later spend to the
    /// totals.
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

    /// Returns the models that changed.
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

    fn emit_all(&mut self, changed: &[String], out: &mut Translated) {
        for model in changed {
            let window = if self.main_model.as_ref() == Some(model) { self.context() } else { None };
            self.emit(model, window, out);
        }
        self.warn(out);
    }

    fn raise(&mut self, model: &str, reported: ModelTotals) {
        let now = reported.plus(self.before.get(model).copied().unwrap_or_default());
        let entry = self.totals.get_or_insert_default().entry(model.to_owned()).or_default();
        entry.cost_usd = entry.cost_usd.max(now.cost_usd);
        entry.tokens = entry.tokens.max(now.tokens);
    }

    /// The totals date from the last result.
    fn emit_window(&mut self, out: &mut Translated) {
        if self.totals.is_some()
            && let Some(model) = self.main_model.clone()
        {
            self.emit(&model, self.context(), out);
        }
        self.warn(out);
    }

    fn emit(&self, model: &str, context_window: Option<RawContextWindow>, out: &mut Translated) {
        let Some(meter_id) = self.session_id.as_deref().and_then(|id| MeterId::parse(id).ok()) else {
            return;
        };
        let totals = self.totals.as_ref().and_then(|totals| totals.get(model)).copied().unwrap_or_default();
        out.push(totals.event(meter_id, model.to_owned(), None, context_window));
    }

    fn context(&self) -> Option<RawContextWindow> {
        let limit = self.main_model.as_ref().and_then(|model| self.limits.get(model)).copied();
        self.window
            .map(|usage| RawContextWindow { usage, model_context_limit: limit.unwrap_or(self.default_limit) })
    }

    /// Publishes the context warning once, and again only after the window was emptier.
    fn warn(&mut self, out: &mut Translated) {
        let (Some(percent), Some(context)) = (self.warn_at_percent, self.context()) else { return };
        let window = Window { tokens: context.usage.total(), limit: context.model_context_limit };
        out.events.extend(window.warning(percent, &mut self.warned));
    }
}
