//! Keeps the beginning and the end of a command's output, without secrets. They are removed before anything is cut, because the rest
//! of a cut secret is not recognised.

use std::collections::VecDeque;

use crate::redaction::{RedactedOutput, Redactor};

/// In bytes. Coverage is searched for in both.
const HEAD: usize = 32 * 1024;
const TAIL: usize = 96 * 1024;
/// In characters.
const EXCERPT_HEAD: usize = 1000;
const EXCERPT_TAIL: usize = 2000;

#[derive(Debug, Default)]
pub(super) struct BoundedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: bool,
    redacted: RedactedOutput,
    redactor: Redactor,
}

impl BoundedOutput {
    pub(super) fn without_secrets(redactor: Redactor) -> Self {
        Self { redacted: redactor.output(), redactor, ..Self::default() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let text = self.redacted.push(bytes);
        self.keep(text.as_bytes());
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(TAIL);
        self.left_out |= excess > 0;
        self.tail.drain(..excess);
    }

    /// The kept bytes as text.
    pub(super) fn text(mut self) -> String {
        let rest = self.redacted.end();
        self.keep(rest.as_bytes());
        let Self { mut head, tail, left_out, redactor, .. } = self;
        if left_out {
            head.extend_from_slice("\n[…]\n".as_bytes());
        }
        head.extend(tail);
        let text = plain(&String::from_utf8_lossy(&head));
        // An escape code can be within a secret.
        redactor.text(&text).unwrap_or(text)
    }
}

/// Removes terminal escape codes and control characters other than white space.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' if characters.peek() == Some(&'[') => {
                // Skip to the letter that ends the code.
                characters.by_ref().skip(1).find(|c| ('@'..='~').contains(c));
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// The beginning and the end of a text without secrets.
pub(super) fn excerpt(text: &str) -> String {
    let text = text.trim();
    let length = text.chars().count();
    if length <= EXCERPT_HEAD + EXCERPT_TAIL {
        return text.to_owned();
    }
    let head: String = text.chars().take(EXCERPT_HEAD).collect();
    let tail: String = text.chars().skip(length - EXCERPT_TAIL).collect();
    format!("{head}\n[…]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_keeps_its_beginning_and_end() {
        let mut kept = BoundedOutput::default();
        kept.push(b"first\n");
        for n in 0..100_000 {
            kept.push(format!("line {n}\n").as_bytes());
        }
        kept.push(b"last\n");
        let text = kept.text();
        assert!(text.len() < HEAD + TAIL + 100, "{}", text.len());
        assert!(text.starts_with("first\n") && text.ends_with("last\n") && text.contains("[…]"));
        let short = excerpt(&text);
        assert!(short.chars().count() < EXCERPT_HEAD + EXCERPT_TAIL + 10);
        assert!(short.starts_with("first") && short.ends_with("last"));
    }

    #[test]
    fn colours_and_control_characters_are_removed() {
        let mut kept = BoundedOutput::default();
        kept.push("\u{1b}[1;31mred\u{1b}[0m\r\n\u{0}\u{7}plain\té".as_bytes());
        assert_eq!(kept.text(), "red\nplain\té");
    }

    #[test]
    fn secret_that_is_cut_leaves_no_part() {
        const SECRET: &str = "kestrel-0123456789";
        let redactor = Redactor::default();
        redactor.keep(SECRET);
        let halves = |at: usize| (format!("{}{}", "a".repeat(at), &SECRET[..9]), &SECRET[9..]);
        // At the end of the excerpt's beginning, of the kept beginning, and with an escape code in it.
        for (at, between) in [(EXCERPT_HEAD - 9, ""), (HEAD - 9, ""), (EXCERPT_HEAD - 9, "\u{1b}[0m")] {
            let mut kept = BoundedOutput::without_secrets(redactor.clone());
            let (first, second) = halves(at);
            let output = format!("{first}{between}{second}{}", "b".repeat(HEAD + TAIL));
            output.as_bytes().chunks(1000).for_each(|piece| kept.push(piece));
            let text = kept.text();
            for text in [excerpt(&text), text] {
                assert!(!text.contains("kestrel") && !text.contains("456789"), "{at} {between:?}");
            }
        }
    }
}
