//! An answer that is not complete yet: what came of it, and what it took as far as that is known.

use std::collections::HashMap;

use crate::conversation::estimate_bytes;
use crate::message::{AssistantContent, AssistantMessage, StopReason, Usage};
use crate::model::Delta;
use crate::model::registry::ModelInfo;
use crate::session::now;

/// What came of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Whether it is shown while it comes.
    pub(super) tell: bool,
    text: String,
    /// Bytes of text and thoughts.
    written: u64,
    /// Bytes of the arguments of each call.
    calls: HashMap<String, u64>,
    /// What the provider told.
    told: Usage,
    begun: bool,
}

/// What an answer took that is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) usage: Usage,
    /// Whether some of it was reckoned, since the provider did not tell.
    pub(super) estimated: bool,
}

impl Partial {
    pub(super) fn new(tell: bool) -> Self {
        Self { tell, ..Self::default() }
    }

    /// A piece came.
    pub(super) fn take(&mut self, delta: &Delta) {
        match delta {
            Delta::Begun => self.begun = true,
            Delta::Text(text) => {
                self.written += text.len() as u64;
                if self.tell {
                    self.text.push_str(text);
                }
            }
            Delta::Thinking(text) => self.written += text.len() as u64,
            Delta::ToolCall { id, name, bytes } => {
                let bytes = bytes + name.len() as u64;
                let call = self.calls.entry(id.clone()).or_default();
                *call = bytes.max(*call);
            }
            Delta::Usage(usage) => self.told = *usage,
            Delta::Done(_) => {}
        }
    }

    /// What it took: what the provider told, and for what it did not tell, which most do only at the end, the input as it was
    /// sent and the output as it came. None, when nothing says that it took anything: what a provider refuses is not paid
    /// for. `aborted`: we ended it, so that a provider that had begun has read the input and is paid for it.
    pub(super) fn taken(&self, input: u64, aborted: bool) -> Option<Taken> {
        let bytes = self.written + self.calls.values().sum::<u64>();
        let output = estimate_bytes(bytes);
        let told = self.told;
        if told != Usage::default() {
            let usage = Usage { output: told.output.max(output), ..told };
            return Some(Taken { usage, estimated: usage != told });
        }
        let came = bytes > 0 || !self.calls.is_empty();
        (came || (aborted && self.begun))
            .then(|| Taken { usage: Usage { input, output, ..Usage::default() }, estimated: true })
    }

    /// What is kept of an answer that was cut off; none, when it said nothing and the provider did not tell what it took.
    /// It carries what it took only where the provider told: the next estimate of the context builds on that.
    pub(super) fn cut_off(self, model: &ModelInfo, taken: Option<Taken>) -> Option<AssistantMessage> {
        let usage = taken.filter(|taken| !taken.estimated).map_or_else(Usage::default, |taken| taken.usage);
        if !self.tell || (self.text.trim().is_empty() && usage == Usage::default()) {
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
        deltas.iter().for_each(|delta| partial.take(delta));
        partial
    }

    #[test]
    fn what_came_is_reckoned_where_the_provider_did_not_tell() {
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
    fn what_a_provider_told_counts_and_what_came_since_is_added() {
        let told = Usage { input: 50, output: 1, cache_read: 20, cache_write: 0 };
        let taken = of(&[Delta::Usage(told)]).taken(700, false);
        assert_eq!(taken, Some(Taken { usage: told, estimated: false }));
        let taken = of(&[Delta::Usage(told), Delta::Text("y".repeat(30))]).taken(700, false);
        assert_eq!(taken, Some(Taken { usage: Usage { output: 10, ..told }, estimated: true }));
    }

    #[test]
    fn what_was_refused_is_not_paid_for_and_what_we_cut_off_is() {
        assert_eq!(of(&[]).taken(700, true), None);
        assert_eq!(of(&[Delta::Begun]).taken(700, false), None);
        let usage = Usage { input: 700, ..Usage::default() };
        assert_eq!(of(&[Delta::Begun]).taken(700, true), Some(Taken { usage, estimated: true }));
    }
}
