//! Finds all forms of all secrets in one pass over a text that may arrive in pieces.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::{Builder, NFA};

use super::{IN_PLACE, forms};

/// `…`, the mark of a truncated text.
const CUT: [u8; 3] = [0xE2, 0x80, 0xA6];

/// An automaton for all forms. Cheap to clone.
#[derive(Clone)]
pub(super) struct Search(Arc<NFA>);

impl Search {
    /// Builds a search. `None` if there are no secrets, or too many for an automaton.
    pub(super) fn for_secrets<'a>(secrets: impl IntoIterator<Item = &'a String>) -> Option<Self> {
        let patterns: Vec<String> = secrets.into_iter().flat_map(|secret| forms::of(secret)).collect();
        if patterns.is_empty() {
            return None;
        }
        // Speeds up the automaton's first states, because most text contains no secret.
        Builder::new().prefilter(false).dense_depth(3).build(patterns).ok().map(|nfa| Self(Arc::new(nfa)))
    }

    /// The text without secrets. `None` if it contains none.
    pub(super) fn clean(&self, text: &str) -> Option<String> {
        let mut scan = Scan::new(self.clone());
        scan.read(text);
        if scan.found.is_empty() {
            return None;
        }
        let mut clean = String::with_capacity(text.len());
        scan.emit(text.len(), &mut clean);
        Some(clean)
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.0.memory_usage()
    }

    fn start(&self, anchored: Anchored) -> Option<StateID> {
        self.0.start_state(anchored).ok()
    }

    /// Start of the longest suffix that is a prefix of a form, or the length if there is none.
    fn beginning_at_end_of(&self, bytes: &[u8]) -> usize {
        let most = self.0.max_pattern_len();
        let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| !is_line_break(**byte)).take(most);
        ends.map(|(at, _)| at)
            .filter(|at| self.begins(bytes[*at..].iter().copied().filter(|byte| !is_line_break(*byte))))
            .last()
            .unwrap_or(bytes.len())
    }

    fn begins(&self, bytes: impl Iterator<Item = u8>) -> bool {
        let Some(mut state) = self.start(Anchored::Yes) else { return false };
        for byte in bytes {
            state = self.0.next_state(Anchored::Yes, state, byte);
            if self.0.is_dead(state) {
                return false;
            }
        }
        true
    }
}

/// State of a search in a streamed text.
pub(super) struct Scan {
    search: Search,
    state: Option<StateID>,
    /// Text that is not released yet.
    text: String,
    /// Matches in `text`, with overlapping ones merged.
    found: Vec<Range<usize>>,
    /// Number of leading bytes in a match that was already released.
    covered: usize,
}

impl Scan {
    pub(super) fn new(search: Search) -> Self {
        let state = search.start(Anchored::No);
        Self { search, state, text: String::new(), found: Vec::new(), covered: 0 }
    }

    pub(super) fn read(&mut self, piece: &str) {
        let from = self.text.len();
        self.text.push_str(piece);
        let nfa = &self.search.0;
        let Some(mut state) = self.state else { return };
        for (at, byte) in (from..).zip(piece.bytes()) {
            if is_line_break(byte) {
                continue;
            }
            if byte == CUT[0] && self.text.as_bytes()[at..].starts_with(&CUT) {
                // A truncated text may end with the beginning of a secret.
                let start = self.search.beginning_at_end_of(&self.text.as_bytes()[..at]);
                if at - start >= forms::MIN_SECRET_BYTES {
                    add(&mut self.found, start..at);
                }
            }
            state = nfa.next_state(Anchored::No, state, byte);
            if nfa.is_special(state) && nfa.is_match(state) {
                let longest = (0..nfa.match_len(state))
                    .map(|index| nfa.pattern_len(nfa.match_pattern(state, index)))
                    .max();
                let start = longest.and_then(|longest| nth_from_end(&self.text.as_bytes()[..=at], longest));
                if let Some(start) = start {
                    add(&mut self.found, start..at + 1);
                }
            }
        }
        self.state = Some(state);
    }

    /// Start of the suffix that may begin a secret. The text before it can be released.
    pub(super) fn settled(&self) -> usize {
        if self.state.is_none() || self.state == self.search.start(Anchored::No) {
            return self.text.len();
        }
        self.search.beginning_at_end_of(self.text.as_bytes())
    }

    /// Moves the text before `until` to `clean`, with matches replaced.
    pub(super) fn emit(&mut self, until: usize, clean: &mut String) {
        let mut emitted = self.covered;
        let found = self.found.iter().take_while(|found| found.start < until).cloned();
        for found in found.collect::<Vec<_>>() {
            // It overlaps a released match, so it is part of it.
            if found.start >= emitted {
                clean.push_str(&self.text[emitted..found.start]);
                clean.push_str(IN_PLACE);
            }
            emitted = emitted.max(found.end);
        }
        if emitted < until {
            clean.push_str(&self.text[emitted..until]);
        }
        self.covered = emitted.saturating_sub(until);
        self.text.drain(..until);
        self.found.retain(|found| found.start >= until);
        for found in &mut self.found {
            *found = found.start - until..found.end - until;
        }
    }

    /// Releases the remaining text.
    pub(super) fn rest(&mut self, clean: &mut String) {
        self.emit(self.text.len(), clean);
        self.state = self.search.start(Anchored::No);
        self.covered = 0;
    }
}

const fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Index of the last `count` bytes, not counting line breaks.
fn nth_from_end(bytes: &[u8], count: usize) -> Option<usize> {
    let counted = bytes.iter().enumerate().rev().filter(|(_, byte)| !is_line_break(**byte));
    counted.map(|(at, _)| at).nth(count.checked_sub(1)?)
}

/// Adds the match that ends last, and merges the matches that it overlaps.
fn add(found: &mut Vec<Range<usize>>, mut new: Range<usize>) {
    while let Some(last) = found.last().filter(|last| last.end > new.start) {
        new.start = new.start.min(last.start);
        found.pop();
    }
    found.push(new);
}
