//! What tools write while they run, as log chunks: at a bounded rate, whatever they write.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_wire::RawEvent;

use crate::redaction::{RedactedStream, Redactor};

/// Time between two chunks of a tool.
pub(super) const EVERY: Duration = Duration::from_millis(250);

/// The most bytes of a chunk; what came before the last of them is left out.
const MOST_CHUNK: usize = 16 * 1024;

/// The most bytes of a call. What it writes beyond them is in its result alone, as far as that goes.
const MOST_CALL: usize = 512 * 1024;

#[derive(Debug)]
struct Writing {
    /// Leaves out secrets before anything is cut: a tool writes them in pieces too.
    stream: RedactedStream,
    waiting: String,
    left_out: usize,
    told: usize,
}

/// What the running tools wrote and was not told yet.
#[derive(Debug, Default)]
pub(super) struct Logs {
    redactor: Redactor,
    calls: BTreeMap<String, Writing>,
}

impl Logs {
    /// Logs without the secrets that are known.
    pub(super) const fn without_secrets(redactor: Redactor) -> Self {
        Self { redactor, calls: BTreeMap::new() }
    }

    /// A tool wrote something.
    pub(super) fn push(&mut self, call: &str, chunk: &str) {
        let new = || Writing { stream: self.redactor.stream(), waiting: String::new(), left_out: 0, told: 0 };
        self.calls.entry(call.to_owned()).or_insert_with(new).push(chunk);
    }

    /// Whether something waits.
    pub(super) fn waits(&self) -> bool {
        self.calls.values().any(|writing| !writing.waiting.is_empty())
    }

    /// What is to be told now.
    pub(super) fn due(&mut self) -> Vec<RawEvent> {
        self.calls.values_mut().filter_map(Writing::take).collect()
    }

    /// What is left of a call that is over.
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
        let excess = self.waiting.len().saturating_sub(MOST_CHUNK);
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
        if self.told >= MOST_CALL {
            return None;
        }
        self.told += waiting.len();
        let mut content =
            if left_out > 0 { format!("[{left_out} bytes left out]\n{waiting}") } else { waiting };
        if self.told >= MOST_CALL {
            content.push_str("\n[what follows is not shown]");
        }
        Some(RawEvent::LogChunk { stream: "tool".into(), content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: Vec<RawEvent>) -> String {
        let text = |event| match event {
            RawEvent::LogChunk { content, .. } => content,
            other => panic!("{other:?} is no log"),
        };
        events.into_iter().map(text).collect()
    }

    #[test]
    fn many_small_pieces_become_one_chunk_and_the_rest_comes_at_the_end() {
        let mut logs = Logs::default();
        (0..100).for_each(|n| logs.push("a", &format!("{n} ")));
        assert!(logs.waits());
        assert!(told(logs.due()).ends_with("98 99 "));
        assert!(!logs.waits() && logs.due().is_empty());
        logs.push("a", "last");
        assert_eq!(told(logs.end("a").into_iter().collect()), "last");
        assert_eq!(logs.end("a"), None);
    }

    #[test]
    fn a_secret_that_a_tool_writes_in_pieces_is_left_out_and_calls_are_told_apart() {
        let redactor = Redactor::default();
        redactor.keep("sk-ant-1234567890");
        let mut logs = Logs::without_secrets(redactor);
        logs.push("a", "it is sk-ant-");
        logs.push("b", "not 1234567890");
        let first = told(logs.due());
        logs.push("a", "1234567890!");
        let rest = told(logs.due()) + &told(logs.end("a").into_iter().chain(logs.end("b")).collect());
        assert_eq!(format!("{first}|{rest}"), "it is not 1234567890|[secret]!");
        // What a cut leaves out of a flood is no part of a secret.
        logs.push("c", &format!("sk-ant-{}", "x".repeat(10)));
        logs.push("c", &format!("sk-ant-1234567890{}", "y".repeat(MOST_CHUNK - 5)));
        assert!(!told(logs.due()).contains("7890"));
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut logs = Logs::default();
        logs.push("a", &"ü".repeat(20_000));
        let first = told(logs.due());
        assert!(
            first.starts_with("[23616 bytes left out]") && first.len() < MOST_CHUNK + 100,
            "{}",
            first.len()
        );
        let mut all = 0;
        for _ in 0..1000 {
            logs.push("a", &"x".repeat(MOST_CHUNK));
            all += told(logs.due()).len();
        }
        assert!(all < MOST_CALL + MOST_CHUNK, "{all}");
    }
}
