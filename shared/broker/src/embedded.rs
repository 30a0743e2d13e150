//! The broker of the embedded profile: durable FIFO queues in the SQLite file of the server.
//!
//! The file stores queues, messages, receive counts, deduplication ids and dead letters. Visibility is kept in memory ([`state`]),
//! without the bodies of stored messages, and changes only after the corresponding commit. After a restart, messages that were in
//! flight are visible.
//!
//! Messages of [`EmbeddedBroker::send_in_memory`] need no transaction, unless their processing fails: then they are stored.
//!
//! Order within a group is strict: a released message that waits for its delay blocks the following messages of its group. Use
//! separate groups for messages that need not wait for each other.

mod dead;
mod rows;
mod state;
mod wait;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_sqlite::{Clock, Database, ReadError, Schema, WriteError};

use crate::queue::{
    Broker, DEAD_LETTER_VISIBILITY_TIMEOUT, DeadLetter, Depth, MAX_BATCH, MAX_WAIT, OutgoingMessage,
    QueueError, QueueName, QueueOptions, Receipt, Received, SendOutcome,
};
use state::{Picked, State, Unstored};
use wait::Waiting;

pub const SCHEMA: Schema = Schema { component: "broker", steps: &[rows::TABLES, rows::REDRIVE] };

/// Clones share the same broker. Create only one for a database.
#[derive(Clone)]
pub struct EmbeddedBroker {
    db: Database,
    clock: Clock,
    state: Arc<Mutex<State>>,
}

impl EmbeddedBroker {
    /// Opens the broker in a database that was opened with [`SCHEMA`], and loads everything but the bodies.
    pub async fn open(db: Database, clock: Clock) -> Result<Self, QueueError> {
        let loaded = db.write(rows::load).await.map_err(engine_write)?;
        let state = State::new(loaded);
        Ok(Self { db, clock, state: Arc::new(Mutex::new(state)) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn number(&self, queue: &QueueName) -> Result<i64, QueueError> {
        self.state().number(queue).ok_or_else(|| no_such_queue(queue))
    }

    /// Sends messages without storing them, for a sender that repeats all messages from [`Self::first_in_memory`] on after a restart.
    ///
    /// A release stores the messages of its group. While a group has stored messages, further messages are stored, too, so that
    /// `first_in_memory` does not wait for a failing group. Deduplication ids have no effect on messages in memory. Returns the id of
    /// the last message in memory. Sends nothing if any message is invalid.
    pub async fn send_in_memory(
        &self,
        batches: Vec<(QueueName, Vec<OutgoingMessage>)>,
    ) -> Result<Option<MessageId>, QueueError> {
        for (queue, messages) in &batches {
            messages.iter().try_for_each(|message| message.check(queue))?;
        }
        let mut last = None;
        for (queue, messages) in batches {
            let number = self.number(&queue)?;
            let (stored, in_memory): (Vec<_>, Vec<_>) = {
                let state = self.state();
                messages.into_iter().partition(|message| state.has_stored(number, &message.group))
            };
            self.send_all(&queue, &stored).await?;
            let mut state = self.state();
            let ids = in_memory.into_iter().map(|it| state.sent_unstored(number, it.group, it.body));
            last = last.max(ids.last());
        }
        Ok(last.map(MessageId))
    }

    /// Sends any number of messages. Fails with the first error.
    pub async fn send_all(&self, queue: &QueueName, messages: &[OutgoingMessage]) -> Result<(), QueueError> {
        for batch in messages.chunks(MAX_BATCH) {
            let outcome = self.send(queue, batch.to_vec()).await?;
            if let Some((_, error)) = outcome.failed.into_iter().next() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The oldest message of [`Self::send_in_memory`] that is neither deleted nor stored.
    pub fn first_in_memory(&self) -> Option<MessageId> {
        self.state().first_unstored().map(MessageId)
    }

    /// Stores messages that were only in memory.
    async fn store(&self, queue: i64, unstored: Vec<Unstored>) -> Result<(), QueueError> {
        if unstored.is_empty() {
            return Ok(());
        }
        let state = Arc::clone(&self.state);
        self.db
            .write(move |tx| {
                rows::store_from_memory(tx, queue, &unstored)?;
                tx.on_commit(move || lock(&state).stored(queue, &unstored));
                Ok(())
            })
            .await
            .map_err(engine_write)
    }

    /// Makes received messages visible again after `delay`. The receive counts if `counts`.
    async fn release_after(
        &self,
        queue: &QueueName,
        receipts: &[Receipt],
        delay: Duration,
        counts: bool,
    ) -> Result<(), QueueError> {
        let number = self.number(queue)?;
        let unstored = {
            let state = self.state();
            state.unstored_in_groups_of(number, &state.valid(number, receipts))
        };
        self.store(number, unstored).await?;
        let now = (self.clock)();
        let mut state = self.state();
        let ids = state.valid(number, receipts);
        if !counts {
            state.uncount(number, &ids);
        }
        state.released(number, &ids, now + delay, now);
        Ok(())
    }

    /// Stores the receive counts, reads the bodies, and moves messages over the limit to the dead letters.
    async fn hand_out(&self, queue: i64, picked: Picked) -> Result<Vec<Received>, QueueError> {
        let Picked { messages, exhausted } = picked;
        if exhausted.is_empty()
            && let Some(received) = messages.iter().map(rows::in_memory).collect()
        {
            return Ok(received);
        }
        let ids: Vec<i64> = messages.iter().map(|m| m.id).collect();
        // If this fails, messages that are not handed out must not stay in flight.
        let mut handed =
            HandoutGuard { state: &self.state, queue, received: ids, exhausted: exhausted.clone() };
        let state = Arc::clone(&self.state);
        let unstored = self.state().unstored(queue, &exhausted);
        // After a power failure, messages are received once more.
        self.db
            .write_unsynced(move |tx| {
                for message in messages.iter().filter(|message| message.body.is_none()) {
                    rows::count_receive(tx, message.id, message.counted)?;
                }
                rows::store_from_memory(tx, queue, &unstored)?;
                for &id in &exhausted {
                    rows::dead_letter(tx, queue, id, None)?;
                }
                if !exhausted.is_empty() {
                    tx.on_commit(move || lock(&state).removed(queue, &exhausted));
                }
                // Here and not on a reader, because the commit would make the pages worthless that a reader has cached.
                rows::bodies(tx, &messages)
            })
            .await
            .map_err(engine_write)
            .inspect(|_| {
                handed.received.clear();
                handed.exhausted.clear();
            })
    }
}

/// Id of a message. Later messages have greater ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(i64);

/// Makes messages visible again if handing them out was not completed.
struct HandoutGuard<'a> {
    state: &'a Mutex<State>,
    queue: i64,
    received: Vec<i64>,
    exhausted: Vec<i64>,
}

impl Drop for HandoutGuard<'_> {
    fn drop(&mut self) {
        if !(self.received.is_empty() && self.exhausted.is_empty()) {
            lock(self.state).undo_hand_out(self.queue, &self.received, &self.exhausted);
        }
    }
}

#[async_trait]
impl Broker for EmbeddedBroker {
    async fn create(&self, queue: &QueueName, options: QueueOptions) -> Result<(), QueueError> {
        if !queue.is_fifo() {
            return Err(QueueError::Invalid("this broker supports only FIFO queues".to_owned()));
        }
        let (name, state) = (queue.clone(), Arc::clone(&self.state));
        self.db
            .write(move |tx| {
                let number = rows::create_queue(tx, name.as_str(), &options)?;
                tx.on_commit(move || lock(&state).created(number, name, options));
                Ok(())
            })
            .await
            .map_err(engine_write)
    }

    async fn remove(&self, queue: &QueueName) -> Result<(), QueueError> {
        let Ok(number) = self.number(queue) else { return Ok(()) };
        let (name, state) = (queue.clone(), Arc::clone(&self.state));
        let left: Arc<Mutex<Vec<i64>>> = Arc::default();
        let orphans = Arc::clone(&left);
        self.db
            .write(move |tx| {
                rows::remove_queue(tx, number)?;
                // Earlier sends are in the state by now; later sends find no queue.
                tx.on_commit(move || *lock(&orphans) = lock(&state).dropped(number, &name));
                Ok(())
            })
            .await
            .map_err(engine_write)?;
        // These rows are unreachable. If the process ends here, the next start deletes them.
        let ids = std::mem::take(&mut *lock(&left));
        for chunk in ids.chunks(500) {
            let chunk = chunk.to_vec();
            self.db.write(move |tx| rows::delete(tx, &chunk)).await.map_err(engine_write)?;
        }
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<QueueName>, QueueError> {
        Ok(self.state().names(prefix))
    }

    async fn send(
        &self,
        queue: &QueueName,
        messages: Vec<OutgoingMessage>,
    ) -> Result<SendOutcome, QueueError> {
        if messages.len() > MAX_BATCH {
            return Err(QueueError::Invalid(format!(
                "{} messages; the limit is {MAX_BATCH}",
                messages.len()
            )));
        }
        let number = self.number(queue)?;
        let mut outcome = SendOutcome::default();
        let mut accepted = Vec::with_capacity(messages.len());
        for (position, message) in messages.into_iter().enumerate() {
            match message.check(queue) {
                Ok(()) => accepted.push(message),
                Err(error) => outcome.failed.push((position, error)),
            }
        }
        if accepted.is_empty() {
            return Ok(outcome);
        }
        let (now, state) = ((self.clock)(), Arc::clone(&self.state));
        let there = self
            .db
            .write(move |tx| {
                if !rows::queue_exists(tx, number)? {
                    return Ok(false);
                }
                let stored = rows::store(tx, &state, number, accepted, now)?;
                tx.on_commit(move || lock(&state).sent(number, stored));
                Ok(true)
            })
            .await
            .map_err(engine_write)?;
        if there { Ok(outcome) } else { Err(no_such_queue(queue)) }
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        if !(1..=MAX_BATCH).contains(&max) || wait > MAX_WAIT {
            return Err(QueueError::Invalid(
                "a receive returns 1 to 10 messages and waits up to 20 s".to_owned(),
            ));
        }
        let mut waiting = Waiting::begin(wait);
        loop {
            let (number, notifier, found) = {
                let mut state = self.state();
                let (number, notifier) = state.notifier(queue).ok_or_else(|| no_such_queue(queue))?;
                (number, notifier, state.pick(number, max, (self.clock)()))
            };
            match found {
                Ok(picked) => {
                    let received = self.hand_out(number, picked).await?;
                    if !received.is_empty() {
                        return Ok(received);
                    }
                }
                Err(next) => {
                    let until_next = next.map(|at| at.since((self.clock)()));
                    if !waiting.sleep(notifier, until_next).await {
                        return Ok(Vec::new());
                    }
                }
            }
        }
    }

    async fn delete(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        let number = self.number(queue)?;
        let ids = {
            let mut state = self.state();
            let (unstored, stored) = state.split(number, &state.valid(number, receipts));
            state.removed(number, &unstored);
            stored
        };
        if ids.is_empty() {
            return Ok(());
        }
        let state = Arc::clone(&self.state);
        // After a power failure, deleted messages may be delivered again. Consumers handle repeated deliveries.
        self.db
            .write_unsynced(move |tx| {
                rows::delete(tx, &ids)?;
                tx.on_commit(move || lock(&state).removed(number, &ids));
                Ok(())
            })
            .await
            .map_err(engine_write)
    }

    async fn release(
        &self,
        queue: &QueueName,
        receipts: &[Receipt],
        delay: Duration,
    ) -> Result<(), QueueError> {
        self.release_after(queue, receipts, delay, true).await
    }

    async fn release_uncounted(
        &self,
        queue: &QueueName,
        receipts: &[Receipt],
        delay: Duration,
    ) -> Result<(), QueueError> {
        self.release_after(queue, receipts, delay, false).await
    }

    async fn dead_letter(
        &self,
        queue: &QueueName,
        message: &Received,
        cause: &str,
    ) -> Result<(), QueueError> {
        let number = self.number(queue)?;
        let ids = self.state().valid(number, std::slice::from_ref(&message.receipt));
        if ids.is_empty() {
            return Ok(());
        }
        let (cause, state) = (cause.to_owned(), Arc::clone(&self.state));
        let unstored = self.state().unstored(number, &ids);
        self.db
            .write(move |tx| {
                rows::store_from_memory(tx, number, &unstored)?;
                for &id in &ids {
                    rows::dead_letter(tx, number, id, Some(&cause))?;
                }
                tx.on_commit(move || lock(&state).removed(number, &ids));
                Ok(())
            })
            .await
            .map_err(engine_write)
    }

    async fn receive_dead_letters(
        &self,
        queue: &QueueName,
        max: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        if !(1..=MAX_BATCH).contains(&max) {
            return Err(QueueError::Invalid("a receive returns 1 to 10 dead letters".to_owned()));
        }
        let (number, now) = (self.number(queue)?, (self.clock)());
        self.db
            .write(move |tx| dead::receive(tx, number, max, now, now + DEAD_LETTER_VISIBILITY_TIMEOUT))
            .await
            .map_err(engine_write)
    }

    async fn release_dead_letters(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        let (number, receipts) = (self.number(queue)?, receipts.to_vec());
        self.db.write(move |tx| dead::show(tx, number, &receipts)).await.map_err(engine_write)
    }

    async fn forget(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        let (number, receipt) = (self.number(queue)?, receipt.clone());
        self.db.write(move |tx| dead::forget(tx, number, &receipt)).await.map_err(engine_write)
    }

    async fn dead_letter_depth(&self, queue: &QueueName) -> Result<u64, QueueError> {
        let number = self.number(queue)?;
        self.db.read(move |conn| dead::depth(conn, number)).await.map_err(engine_read)
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, QueueError> {
        self.state().depth(queue, (self.clock)()).ok_or_else(|| no_such_queue(queue))
    }
}

/// The state is consistent after a panic, because every change completes before anything can fail.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_such_queue(queue: &QueueName) -> QueueError {
    QueueError::NoSuchQueue(queue.as_str().to_owned())
}

fn engine_read(error: ReadError) -> QueueError {
    QueueError::Engine(Box::new(error))
}

fn engine_write(error: WriteError<rusqlite::Error>) -> QueueError {
    QueueError::Engine(Box::new(error))
}
