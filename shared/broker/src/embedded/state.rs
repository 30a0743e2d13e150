//! What is visible and in flight: everything about the messages but their bodies.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use pilothouse_domain::Timestamp;
use tokio::sync::Notify;

use super::rows::Loaded;
use crate::queue::{Depth, QueueName, QueueOptions, Receipt};

/// The most messages that one pick moves to the dead letters.
const MAX_EXHAUSTED: usize = 50;

/// Until when a visible message is hidden.
fn long_ago() -> Timestamp {
    Timestamp::from_millis(0)
}

/// A message as it was stored.
pub(super) struct Stored {
    pub(super) id: i64,
    pub(super) group: String,
}

/// A message that is about to be handed out.
pub(super) struct Handout {
    pub(super) id: i64,
    pub(super) group: Arc<str>,
    /// This time included.
    pub(super) receives: u32,
}

/// What a receive found; in flight from then on.
pub(super) struct Picked {
    pub(super) messages: Vec<Handout>,
    /// Received too often already: to be moved to the dead letters.
    pub(super) exhausted: Vec<i64>,
}

/// All queues.
pub(super) struct State {
    names: BTreeMap<QueueName, i64>,
    queues: HashMap<i64, Queue>,
    next_id: i64,
}

struct Queue {
    options: QueueOptions,
    messages: HashMap<i64, Message>,
    groups: HashMap<Arc<str>, Group>,
    /// Groups that may have something to receive, in turn.
    ready: VecDeque<Arc<str>>,
    /// When hidden messages, in flight or released for later, become visible.
    timers: BTreeSet<(Timestamp, i64)>,
    bell: Arc<Notify>,
}

struct Message {
    group: Arc<str>,
    receives: u32,
    /// In the timers for as long as it has not come.
    hidden_until: Timestamp,
    in_flight: bool,
}

#[derive(Default)]
struct Group {
    /// Ids, rising: the order of the group.
    order: VecDeque<i64>,
    in_flight: usize,
    /// Whether it is among the ready ones.
    ready: bool,
}

impl State {
    pub(super) fn new(loaded: Loaded) -> Self {
        let mut state = Self { names: BTreeMap::new(), queues: HashMap::new(), next_id: loaded.first_id };
        for (number, name, options) in loaded.queues {
            // Only parsed names are stored.
            if let Some(name) = QueueName::parse(name) {
                state.created(number, name, options);
            }
        }
        for (number, message, receives) in loaded.messages {
            if let Some(queue) = state.queues.get_mut(&number) {
                queue.add(message, receives);
            }
        }
        state
    }

    pub(super) fn number(&self, name: &QueueName) -> Option<i64> {
        self.names.get(name).copied()
    }

    /// A queue's number and what wakes those who wait for its messages.
    pub(super) fn bell(&self, name: &QueueName) -> Option<(i64, Arc<Notify>)> {
        let number = self.number(name)?;
        Some((number, Arc::clone(&self.queues.get(&number)?.bell)))
    }

    pub(super) fn names(&self, prefix: &str) -> Vec<QueueName> {
        self.names.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect()
    }

    /// An id above all earlier ones.
    pub(super) fn next_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn created(&mut self, number: i64, name: QueueName, options: QueueOptions) {
        self.names.insert(name, number);
        match self.queues.get_mut(&number) {
            Some(queue) => queue.options = options,
            None => drop(self.queues.insert(number, Queue::new(options))),
        }
    }

    /// Forgets a queue; the ids of its messages.
    pub(super) fn dropped(&mut self, number: i64, name: &QueueName) -> Vec<i64> {
        if self.number(name) == Some(number) {
            self.names.remove(name);
        }
        let Some(queue) = self.queues.remove(&number) else { return Vec::new() };
        queue.bell.notify_one();
        queue.messages.into_keys().collect()
    }

    pub(super) fn sent(&mut self, number: i64, messages: Vec<Stored>) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for message in messages {
            queue.add(message, 0);
        }
    }

    /// Takes what can be received now; when there is nothing, the time at which something may be.
    pub(super) fn pick(
        &mut self,
        number: i64,
        max: usize,
        now: Timestamp,
    ) -> Result<Picked, Option<Timestamp>> {
        self.queues.get_mut(&number).ok_or(None)?.pick(max, now)
    }

    /// The messages whose latest receipt is among these.
    pub(super) fn valid(&self, number: i64, receipts: &[Receipt]) -> Vec<i64> {
        let Some(queue) = self.queues.get(&number) else { return Vec::new() };
        let mut ids: Vec<i64> = receipts
            .iter()
            .filter_map(|receipt| {
                let (id, receives) = receipt.0.split_once('-')?;
                let id = id.parse().ok()?;
                (receives.parse() == Ok(queue.messages.get(&id)?.receives)).then_some(id)
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Forgets messages that were deleted or moved.
    pub(super) fn removed(&mut self, number: i64, ids: &[i64]) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for &id in ids {
            queue.remove(id);
        }
    }

    /// Hides messages that are in flight until `at` only.
    pub(super) fn released(&mut self, number: i64, ids: &[i64], at: Timestamp, now: Timestamp) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for &id in ids {
            queue.release(id, (at > now).then_some(at));
        }
    }

    /// Makes messages visible that were picked and did not get to anyone.
    pub(super) fn not_handed_out(&mut self, number: i64, ids: &[i64]) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for &id in ids {
            queue.release(id, None);
        }
    }

    pub(super) fn depth(&self, name: &QueueName, now: Timestamp) -> Option<Depth> {
        let queue = self.queues.get(&self.number(name)?)?;
        let mut depth = Depth::default();
        for message in queue.messages.values() {
            if message.hidden_until <= now {
                depth.visible += 1;
            } else {
                depth.in_flight += 1;
            }
        }
        Some(depth)
    }
}

impl Queue {
    fn new(options: QueueOptions) -> Self {
        Self {
            options,
            messages: HashMap::new(),
            groups: HashMap::new(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            bell: Arc::new(Notify::new()),
        }
    }

    /// Adds a message at the end of its group.
    fn add(&mut self, stored: Stored, receives: u32) {
        let Stored { id, group } = stored;
        let group = match self.groups.get_key_value(group.as_str()) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(group),
        };
        self.messages.insert(
            id,
            Message { group: Arc::clone(&group), receives, hidden_until: long_ago(), in_flight: false },
        );
        self.groups.entry(Arc::clone(&group)).or_default().order.push_back(id);
        self.settle(&group);
    }

    /// Sets a timer. Who sleeps until a later one has to know.
    fn hide(&mut self, until: Timestamp, id: i64) {
        let earliest = self.timers.first().is_none_or(|first| (until, id) < *first);
        self.timers.insert((until, id));
        if earliest {
            self.bell.notify_one();
        }
    }

    /// Puts a group among the ready ones when its first message is visible and none is in flight.
    fn settle(&mut self, name: &Arc<str>) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let Some(first) = group.order.front() else {
            self.groups.remove(name);
            return;
        };
        let Some(message) = self.messages.get(first) else { return };
        let hidden = self.timers.contains(&(message.hidden_until, *first));
        if !group.ready && group.in_flight == 0 && !hidden {
            group.ready = true;
            self.ready.push_back(Arc::clone(name));
            self.bell.notify_one();
        }
    }

    /// Makes visible whose time has come.
    fn fire_timers(&mut self, now: Timestamp) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(message) = self.messages.get_mut(&id) else { continue };
            let name = Arc::clone(&message.group);
            if std::mem::take(&mut message.in_flight)
                && let Some(group) = self.groups.get_mut(&name)
            {
                group.in_flight -= 1;
            }
            self.settle(&name);
        }
    }

    fn pick(&mut self, max: usize, now: Timestamp) -> Result<Picked, Option<Timestamp>> {
        self.fire_timers(now);
        let until = now + self.options.visibility;
        let limit = self.options.max_receives.unwrap_or(u32::MAX);
        let mut picked = Picked { messages: Vec::with_capacity(max), exhausted: Vec::new() };
        let mut hidden = Vec::with_capacity(max);
        while picked.messages.len() < max && picked.exhausted.len() < MAX_EXHAUSTED {
            let Some(name) = self.ready.pop_front() else { break };
            let Some(group) = self.groups.get_mut(&name) else { continue };
            group.ready = false;
            if group.in_flight > 0 {
                continue;
            }
            for &id in &group.order {
                let Some(message) = self.messages.get_mut(&id) else { break };
                if message.hidden_until > now
                    || picked.messages.len() == max
                    || picked.exhausted.len() == MAX_EXHAUSTED
                {
                    break;
                }
                message.hidden_until = until;
                message.in_flight = true;
                group.in_flight += 1;
                hidden.push(id);
                if message.receives >= limit {
                    picked.exhausted.push(id);
                } else {
                    message.receives += 1;
                    let group = Arc::clone(&message.group);
                    picked.messages.push(Handout { id, group, receives: message.receives });
                }
            }
        }
        for id in hidden {
            self.hide(until, id);
        }
        if !self.ready.is_empty() {
            self.bell.notify_one();
        }
        if picked.messages.is_empty() && picked.exhausted.is_empty() {
            return Err(self.timers.first().map(|(at, _)| *at));
        }
        Ok(picked)
    }

    fn remove(&mut self, id: i64) {
        let Some(message) = self.messages.remove(&id) else { return };
        self.timers.remove(&(message.hidden_until, id));
        if let Some(group) = self.groups.get_mut(&message.group) {
            if let Ok(place) = group.order.binary_search(&id) {
                group.order.remove(place);
            }
            group.in_flight -= usize::from(message.in_flight);
        }
        self.settle(&message.group);
    }

    /// Ends the flight of a message: hidden until `until`, or visible.
    fn release(&mut self, id: i64, until: Option<Timestamp>) {
        let Some(message) = self.messages.get_mut(&id) else { return };
        if !std::mem::take(&mut message.in_flight) {
            return;
        }
        let name = Arc::clone(&message.group);
        self.timers.remove(&(message.hidden_until, id));
        message.hidden_until = until.unwrap_or_else(long_ago);
        if let Some(until) = until {
            self.hide(until, id);
        }
        if let Some(group) = self.groups.get_mut(&name) {
            group.in_flight -= 1;
        }
        self.settle(&name);
    }
}
