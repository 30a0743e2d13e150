//! Runs: one life of one sidecar each, and the order of their envelopes (rulings 7, 9).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::{AgentSession, ProcessState};
use crate::value::Capabilities;
use crate::{CommandId, RunId, Timestamp, Usd};

/// Why a run was minted (ruling 21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunCause {
    /// The session starts.
    Start,
    /// A failed session is tried again.
    Retry,
    /// A hibernated session has something to do.
    Wake,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "phase", rename_all_fields = "camelCase")]
pub enum RunPhase {
    /// Asked for; no word from its sidecar yet.
    Launching,
    /// Its sidecar is up.
    Live,
    /// It is to end.
    Ending {
        /// Since when.
        since: Timestamp,
        /// Whether the runtime was told to kill it.
        killed: bool,
        /// Whether the stop fulfils a request that the sidecar did not answer (ruling 12).
        fulfils_request: bool,
    },
}

/// The current run of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Counts the session's runs from 1.
    pub ordinal: u32,
    /// What for.
    pub cause: RunCause,
    /// How far it is.
    pub phase: RunPhase,
    /// When it was minted, or found a place after it had waited for one.
    pub requested_at: Timestamp,
    /// When it was last found to wait for a place; it does so for as long as it takes (ruling 23).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced_at: Option<Timestamp>,
    /// When its silence counts as death, unless something was heard from it until then (ruling 13).
    pub silent_at: Timestamp,
    /// The `begin` command, once its sidecar is up.
    pub begin: Option<CommandId>,
    /// How often `begin` was sent, and when last, until the sidecar has it.
    pub unheard_begin: Option<(u8, Timestamp)>,
    /// What its adapter can do, once it said so.
    pub capabilities: Option<Capabilities>,
    /// What it spent so far; part of the session's.
    #[serde(default)]
    pub spent_usd: Usd,
    /// The most that it may spend, as it was told last (ruling 32).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_told: Option<Usd>,
    /// Where its envelopes stand.
    pub inbox: Inbox,
}

impl Run {
    /// Whether a silence of this run is its death (ruling 13), by what the runtime says of its process: one that is alive
    /// is ended first, and one that was seen to end is first given the time to have its spool published.
    pub const fn silence_is_death(&self, process: ProcessState) -> bool {
        match process {
            ProcessState::Alive => false,
            ProcessState::Dead => matches!(self.phase, RunPhase::Ending { .. }),
            ProcessState::Waiting | ProcessState::Unknown => true,
        }
    }
}

/// Which envelopes of a run were consumed. Sequences count from 1 without gaps (ruling 9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    next: u64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    parked: BTreeSet<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    /// The last of those that came too early to be kept: they are asked for again in their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turned_away: Option<u64>,
}

/// A request for missing envelopes that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// How often they were asked for.
    pub requests: u8,
    /// When they are asked for again, or given up.
    pub due_at: Timestamp,
}

/// What an envelope's sequence says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    Next,
    /// It was consumed or parked before.
    Duplicate,
    /// Others are missing before it.
    Early,
    /// More wait already than can be kept; the sidecar is asked for it again in its turn.
    TooEarly,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { next: 1, parked: BTreeSet::new(), gap: None, turned_away: None }
    }
}

impl Inbox {
    /// The most envelopes that wait for missing ones.
    pub const MAX_PARKED: usize = 500;

    /// The sequence that is consumed next.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Whether envelopes are missing.
    pub fn has_gap(&self) -> bool {
        self.missing().is_some()
    }

    /// The request for missing envelopes that is under way.
    pub const fn gap(&self) -> Option<Gap> {
        self.gap
    }

    /// What `sequence` says now.
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

    /// The next sequence was consumed. Returns the one after it if that is parked.
    pub fn consume(&mut self) -> Option<u64> {
        self.next += 1;
        self.unpark()
    }

    /// Keeps `sequence` until the missing ones are there.
    pub fn park(&mut self, sequence: u64) {
        self.parked.insert(sequence);
    }

    /// Notes that `sequence` came too early to be kept.
    pub fn turn_away(&mut self, sequence: u64) {
        self.turned_away = self.turned_away.max(Some(sequence));
    }

    /// The first missing sequence and the last before what is parked, or the last that was turned away.
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

    /// Looks after the missing ones later.
    pub(crate) fn postpone(&mut self, due_at: Timestamp) {
        if let Some(gap) = &mut self.gap {
            gap.due_at = due_at;
        }
    }

    /// Gives the missing ones up and returns them. What is parked after them is next now; [`Self::ready`] takes it.
    pub(crate) fn skip_missing(&mut self) -> Option<(u64, u64)> {
        let lost = self.missing()?;
        self.next = lost.1 + 1;
        self.gap = None;
        Some(lost)
    }

    /// Whether the sequence that is next is parked.
    pub fn is_ready(&self) -> bool {
        self.parked.first() == Some(&self.next)
    }

    /// Takes the parked sequence that is next now, if there is one.
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
            // Progress: what is still missing is asked for anew.
            self.gap = None;
        }
        ready
    }
}

/// A run that is over; kept so that its late envelopes are recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastRun {
    /// Its id.
    pub id: RunId,
    /// Which it was.
    pub ordinal: u32,
    /// The sequence that would have been next.
    pub next_sequence: u64,
    /// When it ended; none for one of which that was not kept yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Whose envelope it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The current run, with its place among the session's runs.
    Current(u32),
    /// A run that is over.
    Past(u32),
    /// A run that the session does not know, or not any more.
    Unknown,
}

/// The order of envelopes (ruling 9).
impl AgentSession {
    /// Whose envelope one of `run` is.
    pub fn sender(&self, run: RunId) -> Sender {
        if let Some(current) = self.run.as_ref().filter(|current| current.id == run) {
            return Sender::Current(current.ordinal);
        }
        self.past_runs
            .iter()
            .find(|past| past.id == run)
            .map_or(Sender::Unknown, |past| Sender::Past(past.ordinal))
    }

    /// What the sequence of an envelope says. A run that is over has no gaps to wait for.
    pub fn arrival(&self, run: RunId, sequence: u64) -> Arrival {
        if let Some(current) = self.run.as_ref().filter(|current| current.id == run) {
            return current.inbox.arrival(sequence);
        }
        match self.past_runs.iter().find(|past| past.id == run) {
            Some(past) if sequence >= past.next_sequence => Arrival::Next,
            _ => Arrival::Duplicate,
        }
    }

    /// An envelope was consumed. Returns the parked one that is next now.
    pub fn consume(&mut self, run: RunId, sequence: u64) -> Option<u64> {
        if let Some(current) = self.run.as_mut().filter(|current| current.id == run) {
            return current.inbox.consume();
        }
        if let Some(past) = self.past_runs.iter_mut().find(|past| past.id == run) {
            past.next_sequence = past.next_sequence.max(sequence + 1);
        }
        None
    }

    /// Keeps the place of an envelope of the current run that came early.
    pub fn park(&mut self, sequence: u64) {
        if let Some(run) = &mut self.run {
            run.inbox.park(sequence);
        }
    }

    /// Notes that an envelope of the current run came too early to be kept.
    pub fn turn_away(&mut self, sequence: u64) {
        if let Some(run) = &mut self.run {
            run.inbox.turn_away(sequence);
        }
    }

    /// Takes the parked envelope of the current run that is next, after a gap was given up.
    pub fn take_ready(&mut self) -> Option<u64> {
        self.run.as_mut().and_then(|run| run.inbox.ready())
    }

    /// Whether the envelope of the current run that is next is parked: nothing is missing before it, and it only has to
    /// be applied.
    pub fn has_ready(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.inbox.is_ready())
    }

    /// Whether envelopes of the current run are missing and nobody has asked for them yet.
    pub fn has_unasked_gap(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.inbox.has_gap() && run.inbox.gap().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn consumes_in_order_and_finds_the_gap() {
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
    fn a_closed_gap_goes_on_with_what_is_parked() {
        let mut inbox = Inbox::default();
        inbox.park(3);
        inbox.park(4);
        assert_eq!(inbox.skip_missing(), Some((1, 2)));
        assert_eq!(inbox.ready(), Some(3));
        assert_eq!(inbox.next(), 3);
        assert_eq!(inbox.consume(), Some(4));
    }

    #[test]
    fn what_is_turned_away_is_missing_in_its_turn() {
        let mut inbox = Inbox::default();
        let last = 1 + Inbox::MAX_PARKED as u64;
        (2..=last).for_each(|sequence| inbox.park(sequence));
        assert_eq!(inbox.arrival(last + 1), Arrival::TooEarly);
        inbox.turn_away(last + 1);
        inbox.turn_away(last + 2);
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
        /// Any order and any number of repeats of 1..=n is consumed once each, in order.
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
