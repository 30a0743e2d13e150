//! The order of events. Events are delivered by their sequence; repetitions are dropped, and events that arrive early
//! wait for the missing ones.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use crate::event::Source;

/// How many ids of events are remembered, as many as a shim keeps for replays.
const REMEMBERED: usize = 5000;
/// Most early events to keep. With more of them, the missing ones count as lost.
const MAX_EARLY: usize = 5000;

/// Orders the events of one shim, which are delivered as `T`.
#[derive(Debug)]
pub struct Sequencer<T> {
    run: String,
    next: u64,
    /// The run of an earlier process, and its last sequence. The first event shows whether it is continued.
    earlier: Option<(String, u64)>,
    early: BTreeMap<u64, T>,
    seen: HashSet<String>,
    order: VecDeque<String>,
}

/// The result of an event that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// The events that are due, in order.
    pub ready: Vec<T>,
    /// Events that were never received before a new run began or too many waited.
    pub lost: Option<RangeInclusive<u64>>,
    /// The event is new, but its sequence is that of another event or of a lost one. It is dropped.
    pub late: Option<u64>,
}

impl<T> Default for Delivery<T> {
    fn default() -> Self {
        Self { ready: Vec::new(), lost: None, late: None }
    }
}

impl<T> Default for Sequencer<T> {
    fn default() -> Self {
        Self {
            run: String::new(),
            next: 1,
            earlier: None,
            early: BTreeMap::new(),
            seen: HashSet::new(),
            order: VecDeque::new(),
        }
    }
}

impl<T> Sequencer<T> {
    /// For a new process of the shim. It begins a new run, or continues the sequence of its last run.
    pub fn after(run: &str, last: u64) -> Self {
        Self { earlier: Some((run.to_owned(), last)), ..Self::default() }
    }

    /// `source` is `None` for a message without a place, which is due at once.
    pub fn take(&mut self, source: Option<&Source>, item: T) -> Delivery<T> {
        let mut delivery = Delivery::default();
        let Some(source) = source else {
            delivery.ready.push(item);
            return delivery;
        };
        if source.run_id != self.run {
            delivery = self.begin_run(source);
        }
        let is_repeated = !source.event_id.is_empty() && self.seen.contains(&source.event_id);
        let Some(sequence) = source.sequence else {
            if !is_repeated {
                self.remember(&source.event_id);
                delivery.ready.push(item);
            }
            return delivery;
        };
        // Some shims count from 0.
        if sequence == 0 && self.next == 1 {
            self.next = 0;
        }
        if is_repeated {
            return delivery;
        }
        if sequence < self.next || self.early.contains_key(&sequence) {
            delivery.late = Some(sequence);
            return delivery;
        }
        self.remember(&source.event_id);
        self.early.insert(sequence, item);
        delivery.ready.extend(self.due());
        if self.early.len() > MAX_EARLY {
            let skipped = self.skip_gap();
            delivery.ready.extend(skipped.ready);
            delivery.lost = skipped.lost;
        }
        delivery
    }

    /// The missing events before the first early one.
    pub fn gap(&self) -> Option<RangeInclusive<u64>> {
        self.early.first_key_value().map(|(first, _)| self.next..=first - 1)
    }

    /// The sequence of the event that follows the last one in order.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Id of the shim's current run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Gives up the missing events.
    pub fn skip_gap(&mut self) -> Delivery<T> {
        let lost = self.gap();
        if let Some(lost) = &lost {
            self.next = lost.end() + 1;
        }
        Delivery { ready: self.due(), lost, late: None }
    }

    fn begin_run(&mut self, first: &Source) -> Delivery<T> {
        let lost = self.gap();
        let early = std::mem::take(&mut self.early);
        let continued = self.earlier.take().filter(|(run, last)| {
            *run == first.run_id && first.sequence.is_some_and(|sequence| sequence > *last)
        });
        self.next = continued.map_or(1, |(_, last)| last + 1);
        first.run_id.clone_into(&mut self.run);
        Delivery { ready: early.into_values().collect(), lost, late: None }
    }

    fn due(&mut self) -> Vec<T> {
        let mut due = Vec::new();
        while let Some(item) = self.early.remove(&self.next) {
            due.push(item);
            self.next += 1;
        }
        due
    }

    fn remember(&mut self, id: &str) {
        if id.is_empty() {
            return;
        }
        self.seen.insert(id.to_owned());
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(run: &str, sequence: u64) -> Source {
        Source {
            event_id: format!("{run}/{sequence}"),
            run_id: run.into(),
            sequence: Some(sequence),
            occurred_at: None,
        }
    }

    fn take(sequencer: &mut Sequencer<u64>, run: &str, sequence: u64) -> Vec<u64> {
        sequencer.take(Some(&source(run, sequence)), sequence).ready
    }

    #[test]
    fn early_event_waits_for_the_missing_ones() {
        let mut sequencer = Sequencer::default();
        assert_eq!(take(&mut sequencer, "r", 1), [1]);
        assert_eq!((take(&mut sequencer, "r", 4), sequencer.gap()), (vec![], Some(2..=3)));
        assert_eq!((take(&mut sequencer, "r", 3), sequencer.gap()), (vec![], Some(2..=2)));
        assert_eq!((take(&mut sequencer, "r", 2), sequencer.gap()), (vec![2, 3, 4], None));
    }

    #[test]
    fn repetition_is_dropped() {
        let mut sequencer = Sequencer::default();
        assert_eq!((take(&mut sequencer, "r", 1), take(&mut sequencer, "r", 1)), (vec![1], vec![]));
        let renumbered = Source { sequence: Some(2), ..source("r", 1) };
        assert_eq!(sequencer.take(Some(&renumbered), 2).ready, [] as [u64; 0], "by its id");
        assert_eq!(take(&mut sequencer, "r", 2), [2]);
    }

    #[test]
    fn given_up_events_count_as_lost() {
        let mut sequencer = Sequencer::default();
        take(&mut sequencer, "r", 3);
        let skipped = sequencer.skip_gap();
        assert_eq!((skipped.ready, skipped.lost), (vec![3], Some(1..=2)));
        let late = sequencer.take(Some(&source("r", 2)), 2);
        assert_eq!(late, Delivery { late: Some(2), ..Delivery::default() });
    }

    #[test]
    fn sequence_of_another_event_is_late() {
        let mut sequencer = Sequencer::default();
        take(&mut sequencer, "r", 1);
        take(&mut sequencer, "r", 3);
        for sequence in [1, 3] {
            let other = Source { event_id: format!("other-{sequence}"), ..source("r", sequence) };
            let late = sequencer.take(Some(&other), sequence);
            assert_eq!(late, Delivery { late: Some(sequence), ..Delivery::default() });
        }
        assert_eq!(take(&mut sequencer, "r", 2), [2, 3]);
    }

    #[test]
    fn new_run_starts_again_and_keeps_early_events() {
        let mut sequencer = Sequencer::default();
        take(&mut sequencer, "r", 3);
        let delivery = sequencer.take(Some(&source("s", 1)), 1);
        assert_eq!((delivery.ready, delivery.lost), (vec![3, 1], Some(1..=2)));
        for first in [1, 8] {
            assert_eq!(
                take(&mut Sequencer::after("r", 7), "r", first),
                [first],
                "it continues or starts again"
            );
        }
        assert_eq!(take(&mut Sequencer::default(), "zero", 0), [0]);
    }

    proptest! {
        #[test]
        fn every_event_is_delivered_once_and_in_order(mut arrivals in Just((1..=40).collect::<Vec<u64>>()).prop_shuffle(),
            repeated in prop::collection::vec(1_u64..=40, 0..20)) {
            arrivals.extend(repeated);
            let mut sequencer = Sequencer::default();
            let delivered: Vec<u64> = arrivals.iter().flat_map(|n| take(&mut sequencer, "r", *n)).collect();
            prop_assert_eq!(delivered, (1..=40).collect::<Vec<_>>());
        }
    }
}
