//! The inbox of a run: which of its envelopes were consumed (decision 9).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Tracks which envelopes of a run were consumed. Sequences start at 1 and have no gaps (decision 9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    next: u64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    parked: BTreeSet<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    /// The highest sequence that was rejected because too many envelopes were parked. The gap before it is requested again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turned_away: Option<u64>,
}

/// A pending request to resend missing envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// How many requests were sent.
    pub requests: u8,
    /// When the next request is sent, or the envelopes are given up.
    pub due_at: Timestamp,
}

/// Classification of an envelope by its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next sequence.
    Next,
    /// Consumed or parked before.
    Duplicate,
    /// Earlier envelopes are missing.
    Early,
    /// Earlier envelopes are missing and no more can be parked. The sidecar is asked for it again later.
    TooEarly,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { next: 1, parked: BTreeSet::new(), gap: None, turned_away: None }
    }
}

impl Inbox {
    /// Most envelopes that are parked while earlier ones are missing.
    pub const MAX_PARKED: usize = 500;

    /// The sequence that is consumed next.
    pub const fn next(&self) -> u64 {
        self.next
    }

    pub fn has_gap(&self) -> bool {
        self.missing().is_some()
    }

    pub const fn gap(&self) -> Option<Gap> {
        self.gap
    }

    pub fn arrival(&self, sequence: u64) -> Arrival {
        if sequence < self.next || self.parked.contains(&sequence) {
            Arrival::Duplicate
        } else if sequence == self.next {
            Arrival::Next
        } else if self.parked.len() >= Self::MAX_PARKED {
            Arrival::TooEarly
        } else {
            Arrival::Early
        }
    }

    /// Consumes the next sequence. Returns the one after it if that is parked.
    pub fn consume(&mut self) -> Option<u64> {
        self.next += 1;
        self.unpark()
    }

    /// Keeps `sequence` until the earlier ones arrive.
    pub fn park(&mut self, sequence: u64) {
        self.parked.insert(sequence);
    }

    /// Records that `sequence` arrived too early to be parked.
    pub fn reject_early(&mut self, sequence: u64) {
        self.turned_away = self.turned_away.max(Some(sequence));
    }

    /// The range of missing sequences: up to the first parked one, or else to the highest rejected one.
    pub fn missing(&self) -> Option<(u64, u64)> {
        let last = match self.parked.first() {
            Some(first) => first - 1,
            None => self.turned_away?,
        };
        (last >= self.next).then_some((self.next, last))
    }

    pub(crate) fn asked(&mut self, due_at: Timestamp) {
        let requests = self.gap.map_or(0, |gap| gap.requests) + 1;
        self.gap = Some(Gap { requests, due_at });
    }

    /// Moves the next request for missing envelopes to `due_at`.
    pub(crate) fn postpone(&mut self, due_at: Timestamp) {
        if let Some(gap) = &mut self.gap {
            gap.due_at = due_at;
        }
    }

    /// Gives up the missing envelopes and returns their range. The first parked one is next then; [`Self::ready`] takes it.
    pub(crate) fn skip_missing(&mut self) -> Option<(u64, u64)> {
        let lost = self.missing()?;
        self.next = lost.1 + 1;
        self.gap = None;
        Some(lost)
    }

    pub fn is_ready(&self) -> bool {
        self.parked.first() == Some(&self.next)
    }

    /// Takes the next sequence if it is parked.
    pub fn ready(&mut self) -> Option<u64> {
        self.unpark()
    }

    fn unpark(&mut self) -> Option<u64> {
        let ready = self.parked.first().copied().filter(|first| *first == self.next);
        if let Some(sequence) = ready {
            self.parked.remove(&sequence);
        }
        self.turned_away = self.turned_away.filter(|last| *last >= self.next);
        if !self.has_gap() || ready.is_some() {
            // Progress was made: restart the requests for envelopes that are still missing.
            self.gap = None;
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn envelopes_are_consumed_in_order_and_gaps_found() {
        let mut inbox = Inbox::default();
        assert_eq!(inbox.arrival(1), Arrival::Next);
        assert_eq!(inbox.consume(), None);
        assert_eq!(inbox.arrival(1), Arrival::Duplicate);
        assert_eq!(inbox.arrival(4), Arrival::Early);
        inbox.park(4);
        assert_eq!(inbox.arrival(4), Arrival::Duplicate);
        assert_eq!(inbox.missing(), Some((2, 3)));
        inbox.consume();
        assert_eq!(inbox.consume(), Some(4));
        assert!(!inbox.has_gap());
    }

    #[test]
    fn closing_a_gap_continues_with_parked_envelopes() {
        let mut inbox = Inbox::default();
        inbox.park(3);
        inbox.park(4);
        assert_eq!(inbox.skip_missing(), Some((1, 2)));
        assert_eq!(inbox.ready(), Some(3));
        assert_eq!(inbox.next(), 3);
        assert_eq!(inbox.consume(), Some(4));
    }

    #[test]
    fn rejected_envelope_becomes_missing_in_its_turn() {
        let mut inbox = Inbox::default();
        let last = 1 + Inbox::MAX_PARKED as u64;
        (2..=last).for_each(|sequence| inbox.park(sequence));
        assert_eq!(inbox.arrival(last + 1), Arrival::TooEarly);
        inbox.reject_early(last + 1);
        inbox.reject_early(last + 2);
        assert_eq!(inbox.missing(), Some((1, 1)));
        let mut at = inbox.consume();
        while at.is_some() {
            at = inbox.consume();
        }
        assert_eq!(inbox.missing(), Some((last + 1, last + 2)));
        inbox.consume();
        inbox.consume();
        assert!(!inbox.has_gap());
    }

    proptest! {
        /// Envelopes 1 to n, delivered in any order and any number of times, are consumed once each and in order.
        #[test]
        fn any_order_is_consumed_once_and_in_order(deliveries in prop::collection::vec(1u64..=20, 0..200)) {
            let mut inbox = Inbox::default();
            let mut consumed = Vec::new();
            for sequence in deliveries.into_iter().chain(1..=20) {
                match inbox.arrival(sequence) {
                    Arrival::Next => {
                        let mut at = Some(sequence);
                        while let Some(s) = at {
                            consumed.push(s);
                            at = inbox.consume();
                        }
                    },
                    Arrival::Early => inbox.park(sequence),
                    Arrival::Duplicate | Arrival::TooEarly => {},
                }
            }
            prop_assert_eq!(consumed, (1..=20).collect::<Vec<_>>());
            prop_assert!(!inbox.has_gap());
        }
    }
}
