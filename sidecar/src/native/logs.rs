//! Output of running tools, published as log chunks at a limited rate.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_wire::RawEvent;

use crate::redaction::{RedactedStream, Redactor};

/// Interval between two chunks of a tool.
pub(super) const EVERY: Duration = Duration::from_millis(250);

/// In bytes. If a tool writes more in an interval, the beginning is dropped.
const MAX_CHUNK: usize = 16 * 1024;

/// In bytes, for each call. Further output appears only in its result.
const MAX_CALL: usize = 512 * 1024;

#[derive(Debug)]
struct Writing {
    /// Redacts before truncation, because a tool may write a secret in pieces.
    stream: RedactedStream,
    waiting: String,
    left_out: usize,
    emitted: usize,
}

/// Output that is not published yet.
#[derive(Debug, Default)]
pub(super) struct Logs {
    redactor: Redactor,
    calls: BTreeMap<String, Writing>,
}

impl Logs {
    pub(super) const fn without_secrets(redactor: Redactor) -> Self {
        Self { redactor, calls: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, call: &str, chunk: &str) {
        let new =
            || Writing { stream: self.redactor.stream(), waiting: String::new(), left_out: 0, emitted: 0 };
        self.calls.entry(call.to_owned()).or_insert_with(new).push(chunk);
    }

    pub(super) fn waits(&self) -> bool {
        self.calls.values().any(|writing| !writing.waiting.is_empty())
    }

    /// The log chunks to publish now.
    pub(super) fn due(&mut self) -> Vec<RawEvent> {
        self.calls.values_mut().filter_map(Writing::take).collect()
    }

    /// The remaining output of a finished call.
    pub(super) fn end(&mut self, call: &str) -> Option<RawEvent> {
        let mut writing = self.calls.remove(call)?;
        let rest = writing.stream.end();
        writing.wait(&rest);
        writing.take()
    }
}

impl Writing {
    fn push(&mut self, chunk: &str) {
        let chunk = self.stream.push(chunk);
        self.wait(&chunk);
    }

    fn wait(&mut self, chunk: &str) {
        self.waiting.push_str(chunk);
        let excess = self.waiting.len().saturating_sub(MAX_CHUNK);
        if excess > 0 {
            let all = self.waiting.len();
            let cut = (excess..=all).find(|at| self.waiting.is_char_boundary(*at)).unwrap_or(all);
            self.waiting.drain(..cut);
            self.left_out += cut;
        }
    }

    fn take(&mut self) -> Option<RawEvent> {
        if self.waiting.is_empty() {
            return None;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let left_out = std::mem::take(&mut self.left_out);
        if self.emitted >= MAX_CALL {
            return None;
        }
        self.emitted += waiting.len();
        let mut content =
            if left_out > 0 { format!("[{left_out} bytes left out]\n{waiting}") } else { waiting };
        if self.emitted >= MAX_CALL {
            content.push_str("\n[what follows is not shown]");
        }
        Some(RawEvent::LogChunk { stream: "tool".into(), content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(events: Vec<RawEvent>) -> String {
        let text = |event| match event {
            RawEvent::LogChunk { content, .. } => content,
            other => panic!("{other:?} is no log"),
        };
        events.into_iter().map(text).collect()
    }

    #[test]
    fn small_pieces_are_joined_and_the_rest_is_flushed_at_the_end() {
        let mut logs = Logs::default();
        (0..100).for_each(|n| logs.push("a", &format!("{n} ")));
        assert!(logs.waits());
        assert!(emitted(logs.due()).ends_with("98 99 "));
        assert!(!logs.waits() && logs.due().is_empty());
        logs.push("a", "last");
        assert_eq!(emitted(logs.end("a").into_iter().collect()), "last");
        assert_eq!(logs.end("a"), None);
    }

    #[test]
    fn secret_in_pieces_is_redacted_and_calls_are_kept_apart() {
        let redactor = Redactor::default();
        redactor.keep("sk-ant-1234567890");
        let mut logs = Logs::without_secrets(redactor);
        logs.push("a", "it is sk-ant-");
        logs.push("b", "not 1234567890");
        let first = emitted(logs.due());
        logs.push("a", "1234567890!");
        let rest = emitted(logs.due()) + &emitted(logs.end("a").into_iter().chain(logs.end("b")).collect());
        assert_eq!(format!("{first}|{rest}"), "it is not 1234567890|[secret]!");
        // A truncation leaves no partial secret.
        logs.push("c", &format!("sk-ant-{}", "x".repeat(10)));
        logs.push("c", &format!("sk-ant-1234567890{}", "y".repeat(MAX_CHUNK - 5)));
        assert!(!emitted(logs.due()).contains("7890"));
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut logs = Logs::default();
        logs.push("a", &"ü".repeat(20_000));
        let first = emitted(logs.due());
        assert!(
            first.starts_with("[23616 bytes left out]") && first.len() < MAX_CHUNK + 100,
            "{}",
            first.len()
        );
        let mut all = 0;
        for _ in 0..1000 {
            logs.push("a", &"x".repeat(MAX_CHUNK));
            all += emitted(logs.due()).len();
        }
        assert!(all < MAX_CALL + MAX_CHUNK, "{all}");
    }
}
