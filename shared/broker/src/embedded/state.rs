//! Visibility of messages: everything about them except the bodies of stored ones.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use pilothouse_domain::Timestamp;
use tokio::sync::Notify;

use crate::queue::{Depth, QueueName, QueueOptions, Receipt};

pub(super) struct Loaded {
    pub(super) queues: Vec<(i64, String, QueueOptions)>,
    /// Queue number, message and receive count; oldest first.
    pub(super) messages: Vec<(i64, Stored, u32)>,
    /// Greater than all ids used before.
    pub(super) first_id: i64,
}

/// Most messages that one pick moves to the dead letters.
const MAX_EXHAUSTED: usize = 50;

/// Value of `hidden_until` for a visible message.
fn long_ago() -> Timestamp {
    Timestamp::from_millis(0)
}

pub(super) struct Stored {
    pub(super) id: i64,
    pub(super) group: String,
}

pub(super) struct PickedMessage {
    pub(super) id: i64,
    pub(super) group: Arc<str>,
    /// Including this receive. The receipt contains it.
    pub(super) receives: u32,
    /// The receives that count, including this one.
    pub(super) counted: u32,
    /// `None` if the message is stored.
    pub(super) body: Option<Arc<str>>,
}

/// A message that is only in memory, with the values of its rows.
pub(super) struct Unstored {
    pub(super) id: i64,
    pub(super) group: Arc<str>,
    /// The receives that count.
    pub(super) counted: u32,
    pub(super) body: Arc<str>,
}

/// Messages found by a receive; they are in flight now.
pub(super) struct Picked {
    pub(super) messages: Vec<PickedMessage>,
    /// Messages over the limit of receives, to be moved to the dead letters.
    pub(super) exhausted: Vec<i64>,
}

pub(super) struct State {
    names: BTreeMap<QueueName, i64>,
    queues: HashMap<i64, Queue>,
    next_id: i64,
}

struct Queue {
    options: QueueOptions,
    messages: HashMap<i64, Message>,
    /// Messages that are only in memory.
    unstored: BTreeSet<i64>,
    groups: HashMap<Arc<str>, Group>,
    /// Groups that may have a message to receive, in turn.
    ready: VecDeque<Arc<str>>,
    /// When hidden messages, in flight or released with a delay, become visible.
    timers: BTreeSet<(Timestamp, i64)>,
    notifier: Arc<Notify>,
}

struct Message {
    group: Arc<str>,
    /// `None` if the message is stored.
    body: Option<Arc<str>>,
    receives: u32,
    /// The receives among them that do not count towards the limit. After a restart `receives` is without them.
    uncounted: u32,
    /// In the timers until this time has come.
    hidden_until: Timestamp,
    in_flight: bool,
}

#[derive(Default)]
struct Group {
    /// Ids in ascending order, which is the order of the group.
    order: VecDeque<i64>,
    in_flight: usize,
    ready: bool,
}

impl State {
    pub(super) fn new(loaded: Loaded) -> Self {
        let mut state = Self { names: BTreeMap::new(), queues: HashMap::new(), next_id: loaded.first_id };
        for (number, name, options) in loaded.queues {
            // All stored names were parsed before.
            if let Some(name) = QueueName::parse(name) {
                state.created(number, name, options);
            }
        }
        for (number, message, receives) in loaded.messages {
            if let Some(queue) = state.queues.get_mut(&number) {
                queue.add(message, receives, None);
            }
        }
        state
    }

    pub(super) fn number(&self, name: &QueueName) -> Option<i64> {
        self.names.get(name).copied()
    }

    /// A queue's number, and the bell that wakes polls of the queue.
    pub(super) fn notifier(&self, name: &QueueName) -> Option<(i64, Arc<Notify>)> {
        let number = self.number(name)?;
        Some((number, Arc::clone(&self.queues.get(&number)?.notifier)))
    }

    pub(super) fn names(&self, prefix: &str) -> Vec<QueueName> {
        self.names.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect()
    }

    /// An id greater than all earlier ones.
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

    /// Forgets a queue. Returns the ids of its messages.
    pub(super) fn dropped(&mut self, number: i64, name: &QueueName) -> Vec<i64> {
        if self.number(name) == Some(number) {
            self.names.remove(name);
        }
        let Some(queue) = self.queues.remove(&number) else { return Vec::new() };
        queue.notifier.notify_one();
        queue.messages.into_keys().collect()
    }

    pub(super) fn sent(&mut self, number: i64, messages: Vec<Stored>) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for message in messages {
            queue.add(message, 0, None);
        }
    }

    /// Adds a message that is only in memory. Returns its id.
    pub(super) fn sent_unstored(&mut self, number: i64, group: String, body: String) -> i64 {
        let id = self.next_id();
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.add(Stored { id, group }, 0, Some(Arc::from(body)));
        }
        id
    }

    /// The messages among `ids` that are only in memory.
    pub(super) fn unstored(&self, number: i64, ids: &[i64]) -> Vec<Unstored> {
        let Some(queue) = self.queues.get(&number) else { return Vec::new() };
        let unstored = |&id: &i64| {
            let message = queue.messages.get(&id)?;
            let body = Arc::clone(message.body.as_ref()?);
            Some(Unstored { id, group: Arc::clone(&message.group), counted: message.counted(), body })
        };
        ids.iter().filter_map(unstored).collect()
    }

    /// The messages of the groups of `ids` that are only in memory.
    pub(super) fn unstored_in_groups_of(&self, number: i64, ids: &[i64]) -> Vec<Unstored> {
        let Some(queue) = self.queues.get(&number) else { return Vec::new() };
        let groups: BTreeSet<_> = ids.iter().filter_map(|id| Some(&queue.messages.get(id)?.group)).collect();
        let all =
            groups.into_iter().filter_map(|group| queue.groups.get(group)).flat_map(|group| &group.order);
        self.unstored(number, &all.copied().collect::<Vec<_>>())
    }

    /// Whether the group has a message in the file.
    pub(super) fn has_stored(&self, number: i64, group: &str) -> bool {
        let of = |queue: &Queue| {
            let group = queue.groups.get(group)?;
            Some(group.order.iter().any(|id| !queue.unstored.contains(id)))
        };
        self.queues.get(&number).and_then(of).unwrap_or(false)
    }

    /// Returns the messages that are only in memory, and the others.
    pub(super) fn split(&self, number: i64, ids: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let Some(queue) = self.queues.get(&number) else { return (Vec::new(), Vec::new()) };
        ids.iter().partition(|id| queue.unstored.contains(id))
    }

    /// Records that these messages are in the file now.
    pub(super) fn stored(&mut self, number: i64, messages: &[Unstored]) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for Unstored { id, .. } in messages {
            if let Some(message) = queue.messages.get_mut(id) {
                message.body = None;
                queue.unstored.remove(id);
            }
        }
    }

    /// The lowest id of the messages that are only in memory.
    pub(super) fn first_unstored(&self) -> Option<i64> {
        self.queues.values().filter_map(|queue| queue.unstored.first().copied()).min()
    }

    /// Takes messages that can be received now. If there are none, returns when the next may become visible.
    pub(super) fn pick(
        &mut self,
        number: i64,
        max: usize,
        now: Timestamp,
    ) -> Result<Picked, Option<Timestamp>> {
        self.queues.get_mut(&number).ok_or(None)?.pick(max, now)
    }

    /// The messages whose latest receipt is given.
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

    pub(super) fn removed(&mut self, number: i64, ids: &[i64]) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for &id in ids {
            queue.remove(id);
        }
    }

    pub(super) fn released(&mut self, number: i64, ids: &[i64], at: Timestamp, now: Timestamp) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for &id in ids {
            queue.release(id, (at > now).then_some(at));
        }
    }

    /// Lets the latest receives of messages in flight not count towards the limit.
    pub(super) fn uncount(&mut self, number: i64, ids: &[i64]) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for id in ids {
            if let Some(message) = queue.messages.get_mut(id).filter(|message| message.in_flight) {
                message.uncounted += 1;
            }
        }
    }

    /// Makes picked messages visible that were not handed out. Neither they nor the `exhausted` ones count as received.
    pub(super) fn undo_hand_out(&mut self, number: i64, received: &[i64], exhausted: &[i64]) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        for id in received {
            if let Some(message) = queue.messages.get_mut(id) {
                message.receives = message.receives.saturating_sub(1);
            }
        }
        for &id in received.iter().chain(exhausted) {
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

impl Message {
    const fn counted(&self) -> u32 {
        self.receives.saturating_sub(self.uncounted)
    }

    fn picked(&self, id: i64) -> PickedMessage {
        PickedMessage {
            id,
            group: Arc::clone(&self.group),
            receives: self.receives,
            counted: self.counted(),
            body: self.body.clone(),
        }
    }
}

impl Queue {
    fn new(options: QueueOptions) -> Self {
        Self {
            options,
            messages: HashMap::new(),
            unstored: BTreeSet::new(),
            groups: HashMap::new(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            notifier: Arc::new(Notify::new()),
        }
    }

    fn add(&mut self, stored: Stored, receives: u32, body: Option<Arc<str>>) {
        let Stored { id, group } = stored;
        let group = match self.groups.get_key_value(group.as_str()) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(group),
        };
        if body.is_some() {
            self.unstored.insert(id);
        }
        let message = Message {
            group: Arc::clone(&group),
            body,
            receives,
            uncounted: 0,
            hidden_until: long_ago(),
            in_flight: false,
        };
        self.messages.insert(id, message);
        let order = &mut self.groups.entry(Arc::clone(&group)).or_default().order;
        // Messages in memory are added at once, and stored ones with their commit, so an older message may come later.
        order.insert(order.partition_point(|other| *other < id), id);
        self.settle(&group);
    }

    /// Hides a message until a time. Wakes a poll if that is the earliest timer.
    fn hide(&mut self, until: Timestamp, id: i64) {
        let earliest = self.timers.first().is_none_or(|first| (until, id) < *first);
        self.timers.insert((until, id));
        if earliest {
            self.notifier.notify_one();
        }
    }

    /// Adds a group to the ready list if its first message is visible and none is in flight.
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
            self.notifier.notify_one();
        }
    }

    /// Makes messages visible whose time has come.
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
                if message.counted() >= limit {
                    picked.exhausted.push(id);
                } else {
                    message.receives += 1;
                    picked.messages.push(message.picked(id));
                }
            }
        }
        for id in hidden {
            self.hide(until, id);
        }
        if !self.ready.is_empty() {
            self.notifier.notify_one();
        }
        if picked.messages.is_empty() && picked.exhausted.is_empty() {
            return Err(self.timers.first().map(|(at, _)| *at));
        }
        Ok(picked)
    }

    fn remove(&mut self, id: i64) {
        let Some(message) = self.messages.remove(&id) else { return };
        self.unstored.remove(&id);
        self.timers.remove(&(message.hidden_until, id));
        if let Some(group) = self.groups.get_mut(&message.group) {
            if let Ok(place) = group.order.binary_search(&id) {
                group.order.remove(place);
            }
            group.in_flight -= usize::from(message.in_flight);
        }
        self.settle(&message.group);
    }

    /// Ends the flight of a message. It is hidden until `until`, or visible.
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
