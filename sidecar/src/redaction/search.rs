//! Finds all shapes of all secrets in one pass over a text, which may come in pieces.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::{Builder, NFA};

use super::{IN_PLACE, forms};

/// What stands where a text was cut: `…`.
const CUT: [u8; 3] = [0xE2, 0x80, 0xA6];

/// What is searched for. Cheap to clone.
#[derive(Clone)]
pub(super) struct Search(Arc<NFA>);

impl Search {
    /// A search for these secrets. None: there are none, or more than can be searched for.
    pub(super) fn for_secrets<'a>(secrets: impl IntoIterator<Item = &'a String>) -> Option<Self> {
        let patterns: Vec<String> = secrets.into_iter().flat_map(|secret| forms::of(secret)).collect();
        if patterns.is_empty() {
            return None;
        }
        // A text is mostly no secret: the first steps of the automaton are what counts.
        Builder::new().prefilter(false).dense_depth(3).build(patterns).ok().map(|nfa| Self(Arc::new(nfa)))
    }

    /// The text without secrets; none when there are none in it.
    pub(super) fn clean(&self, text: &str) -> Option<String> {
        let mut scan = Scan::new(self.clone());
        scan.read(text);
        if scan.found.is_empty() {
            return None;
        }
        let mut clean = String::with_capacity(text.len());
        scan.tell(text.len(), &mut clean);
        Some(clean)
    }

    /// The bytes that it takes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.0.memory_usage()
    }

    fn start(&self, anchored: Anchored) -> Option<StateID> {
        self.0.start_state(anchored).ok()
    }

    /// Where the longest end begins that is the beginning of something; behind the last byte if none is.
    fn beginning_at_end_of(&self, bytes: &[u8]) -> usize {
        let most = self.0.max_pattern_len();
        let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| !is_line_break(**byte)).take(most);
        ends.map(|(at, _)| at)
            .filter(|at| self.begins(bytes[*at..].iter().copied().filter(|byte| !is_line_break(*byte))))
            .last()
            .unwrap_or(bytes.len())
    }

    /// Whether these bytes are the beginning of something that is searched for.
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

/// A text on its way.
pub(super) struct Scan {
    search: Search,
    state: Option<StateID>,
    /// What was read and not told.
    text: String,
    /// Where something was found in it. What was found overlapping is one.
    found: Vec<Range<usize>>,
    /// So many bytes of it belong to what was found before it, and told already.
    covered: usize,
}

impl Scan {
    pub(super) fn new(search: Search) -> Self {
        let state = search.start(Anchored::No);
        Self { search, state, text: String::new(), found: Vec::new(), covered: 0 }
    }

    /// Reads on.
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
                // Whoever cut a text may have left the beginning of a secret.
                let start = self.search.beginning_at_end_of(&self.text.as_bytes()[..at]);
                if at - start >= forms::LEAST {
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

    /// Where the end begins that may be the beginning of something: what comes before it is settled.
    pub(super) fn settled(&self) -> usize {
        if self.state.is_none() || self.state == self.search.start(Anchored::No) {
            return self.text.len();
        }
        self.search.beginning_at_end_of(self.text.as_bytes())
    }

    /// Takes out what stands before `until`, with a mark in place of what was found.
    pub(super) fn tell(&mut self, until: usize, clean: &mut String) {
        let mut told = self.covered;
        let found = self.found.iter().take_while(|found| found.start < until).cloned();
        for found in found.collect::<Vec<_>>() {
            // What overlaps what was told before is a part of it.
            if found.start >= told {
                clean.push_str(&self.text[told..found.start]);
                clean.push_str(IN_PLACE);
            }
            told = told.max(found.end);
        }
        if told < until {
            clean.push_str(&self.text[told..until]);
        }
        self.covered = told.saturating_sub(until);
        self.text.drain(..until);
        self.found.retain(|found| found.start >= until);
        for found in &mut self.found {
            *found = found.start - until..found.end - until;
        }
    }

    /// What is left, to its end.
    pub(super) fn rest(&mut self, clean: &mut String) {
        self.tell(self.text.len(), clean);
        self.state = self.search.start(Anchored::No);
        self.covered = 0;
    }
}

const fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Where the last `count` bytes begin, line breaks not counted.
fn nth_from_end(bytes: &[u8], count: usize) -> Option<usize> {
    let counted = bytes.iter().enumerate().rev().filter(|(_, byte)| !is_line_break(**byte));
    counted.map(|(at, _)| at).nth(count.checked_sub(1)?)
}

/// Adds what ends behind all others; what it overlaps becomes a part of it.
fn add(found: &mut Vec<Range<usize>>, mut new: Range<usize>) {
    while let Some(last) = found.last().filter(|last| last.end > new.start) {
        new.start = new.start.min(last.start);
        found.pop();
    }
    found.push(new);
}
