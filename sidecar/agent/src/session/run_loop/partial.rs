//! An incomplete reply: its content, and its usage as far as it is known.

use std::collections::HashMap;

use crate::conversation::estimate_bytes;
use crate::message::{AssistantContent, AssistantMessage, StopReason, Usage, now};
use crate::model::Delta;
use crate::model::info::ModelInfo;

/// The content of a reply so far.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Whether pieces are emitted as they arrive.
    pub(super) streamed: bool,
    text: String,
    /// Bytes of text and thoughts.
    written: u64,
    /// Bytes of the arguments of each call.
    calls: HashMap<String, u64>,
    reported: Usage,
    begun: bool,
}

/// Usage of an incomplete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) usage: Usage,
    /// Whether a part was estimated because the provider did not report it.
    pub(super) estimated: bool,
}

impl Partial {
    pub(super) fn new(streamed: bool) -> Self {
        Self { streamed, ..Self::default() }
    }

    pub(super) fn take(&mut self, delta: &Delta) {
        match delta {
            Delta::Begun => self.begun = true,
            Delta::Text(text) => {
                self.written += text.len() as u64;
                if self.streamed {
                    self.text.push_str(text);
                }
            }
            Delta::Thinking(text) => self.written += text.len() as u64,
            Delta::ToolCall { id, name, bytes } => {
                let bytes = bytes + name.len() as u64;
                let call = self.calls.entry(id.clone()).or_default();
                *call = bytes.max(*call);
            }
            Delta::Usage(usage) => self.reported = *usage,
            Delta::Done(_) => {}
        }
    }

    /// The usage so far. Most providers report it only at the end; the missing part is estimated from the request's
    /// input and the received output. `None` if there is no sign of usage, because a rejected request is not charged.
    /// `aborted`: this side ended the call, so a provider that had begun to answer charges the input.
    pub(super) fn taken(&self, input: u64, aborted: bool) -> Option<Taken> {
        let bytes = self.written + self.calls.values().sum::<u64>();
        let output = estimate_bytes(bytes);
        let reported = self.reported;
        if reported != Usage::default() {
            let usage = Usage { output: reported.output.max(output), ..reported };
            return Some(Taken { usage, estimated: usage != reported });
        }
        let came = bytes > 0 || !self.calls.is_empty();
        (came || (aborted && self.begun))
            .then(|| Taken { usage: Usage { input, output, ..Usage::default() }, estimated: true })
    }

    /// The message to keep of an aborted reply. `None` if it has no text and the provider reported no usage. The
    /// message contains only reported usage, because the next estimate of the context builds on it.
    pub(super) fn cut_off(self, model: &ModelInfo, taken: Option<Taken>) -> Option<AssistantMessage> {
        let usage = taken.filter(|taken| !taken.estimated).map_or_else(Usage::default, |taken| taken.usage);
        if !self.streamed || (self.text.trim().is_empty() && usage == Usage::default()) {
            return None;
        }
        let text = (!self.text.is_empty()).then_some(AssistantContent::Text { text: self.text });
        Some(AssistantMessage {
            content: text.into_iter().collect(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage,
            stop_reason: StopReason::Aborted,
            error: None,
            timestamp: now(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(deltas: &[Delta]) -> Partial {
        let mut partial = Partial::new(true);
        for delta in deltas {
            partial.take(delta);
        }
        partial
    }

    #[test]
    fn received_text_is_estimated_when_usage_is_unreported() {
        let call = |bytes| Delta::ToolCall { id: "a".into(), name: "t".into(), bytes };
        let partial = of(&[
            Delta::Begun,
            Delta::Thinking("x".repeat(30)),
            Delta::Text("y".repeat(30)),
            call(10),
            call(29),
        ]);
        let usage = Usage { input: 700, output: 30, ..Usage::default() };
        assert_eq!(partial.taken(700, false), Some(Taken { usage, estimated: true }));
    }

    #[test]
    fn reported_usage_counts_plus_an_estimate_of_the_rest() {
        let reported = Usage { input: 50, output: 1, cache_read: 20, cache_write: 0 };
        let taken = of(&[Delta::Usage(reported)]).taken(700, false);
        assert_eq!(taken, Some(Taken { usage: reported, estimated: false }));
        let taken = of(&[Delta::Usage(reported), Delta::Text("y".repeat(30))]).taken(700, false);
        assert_eq!(taken, Some(Taken { usage: Usage { output: 10, ..reported }, estimated: true }));
    }

    #[test]
    fn refused_call_is_free_and_an_aborted_one_is_charged() {
        assert_eq!(of(&[]).taken(700, true), None);
        assert_eq!(of(&[Delta::Begun]).taken(700, false), None);
        let usage = Usage { input: 700, ..Usage::default() };
        assert_eq!(of(&[Delta::Begun]).taken(700, true), Some(Taken { usage, estimated: true }));
    }
}
