//! The broker of the embedded profile: durable FIFO queues in the SQLite file of the server.
//!
//! What must survive is in the file: queues, messages, how often each was received, deduplication ids, dead
//! letters. What is visible or in flight is in memory ([`state`]), without the bodies, and is changed only
//! after the commit that it follows from. After a restart, what was in flight is visible again.
//!
//! Order is strict within a group: a message that waits for its visibility after a release holds back what follows it
//! in its group. Give messages that need not wait for each other groups of their own.

mod dead;
mod rows;
mod state;
mod wait;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_sqlite::{Clock, Database, ReadError, Schema, WriteError};

use crate::queue::{
    Broker, DEAD_LETTER_HIDDEN, DeadLetter, Depth, MAX_BATCH, MAX_WAIT, Outgoing, QueueError, QueueName,
    QueueOptions, Receipt, Received, SendOutcome,
};
use state::{Picked, State};
use wait::Waiting;

/// The tables of this engine.
pub const SCHEMA: Schema = Schema { component: "broker", steps: &[rows::TABLES, rows::REDRIVE] };

/// The broker in SQLite. Clones are the same broker; make one for a database.
#[derive(Clone)]
pub struct EmbeddedBroker {
    db: Database,
    clock: Clock,
    state: Arc<Mutex<State>>,
}

impl EmbeddedBroker {
    /// The broker in a database that was opened with [`SCHEMA`]. Reads what is there, except the bodies.
    pub async fn open(db: Database, clock: Clock) -> Result<Self, QueueError> {
        let loaded = db.write(rows::load).await.map_err(engine_write)?;
        let state = State::new(loaded);
        Ok(Self { db, clock, state: Arc::new(Mutex::new(state)) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The number of a queue.
    fn number(&self, queue: &QueueName) -> Result<i64, QueueError> {
        self.state().number(queue).ok_or_else(|| no_such(queue))
    }

    /// Counts the receives durably, moves what was received too often, and reads the bodies.
    async fn hand_out(&self, queue: i64, picked: Picked) -> Result<Vec<Received>, QueueError> {
        let Picked { messages, exhausted } = picked;
        let ids: Vec<i64> = messages.iter().map(|m| m.id).collect();
        // Whatever happens from here on, what is not handed out must not stay in flight.
        let mut handed =
            Handed { state: &self.state, queue, ids: ids.iter().chain(&exhausted).copied().collect() };
        let state = Arc::clone(&self.state);
        self.db
            .write(move |tx| {
                for message in &messages {
                    rows::count_receive(tx, message.id, message.receives)?;
                }
                for &id in &exhausted {
                    rows::bury(tx, queue, id, None)?;
                }
                if !exhausted.is_empty() {
                    tx.on_commit(move || lock(&state).removed(queue, &exhausted));
                }
                Ok(messages)
            })
            .await
            .map_err(engine_write)
            .and_then(|messages| {
                let received = self.db.read_now(|conn| rows::bodies(conn, &messages)).map_err(engine_read)?;
                handed.ids.clear();
                Ok(received)
            })
    }
}

/// Makes messages visible again when handing them out did not come to its end.
struct Handed<'a> {
    state: &'a Mutex<State>,
    queue: i64,
    ids: Vec<i64>,
}

impl Drop for Handed<'_> {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            lock(self.state).not_handed_out(self.queue, &self.ids);
        }
    }
}

#[async_trait]
impl Broker for EmbeddedBroker {
    async fn create(&self, queue: &QueueName, options: QueueOptions) -> Result<(), QueueError> {
        if !queue.is_fifo() {
            return Err(QueueError::Invalid("this broker has FIFO queues only".to_owned()));
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
                // Sends that were committed before this are in the state by then; later ones find no queue.
                tx.on_commit(move || *lock(&orphans) = lock(&state).dropped(number, &name));
                Ok(())
            })
            .await
            .map_err(engine_write)?;
        // Nothing leads to these rows any more. Should the process end here, the next start removes them.
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

    async fn send(&self, queue: &QueueName, messages: Vec<Outgoing>) -> Result<SendOutcome, QueueError> {
        if messages.len() > MAX_BATCH {
            return Err(QueueError::Invalid(format!("{} messages; the most is {MAX_BATCH}", messages.len())));
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
        if there { Ok(outcome) } else { Err(no_such(queue)) }
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        if !(1..=MAX_BATCH).contains(&max) || wait > MAX_WAIT {
            return Err(QueueError::Invalid(
                "a receive takes 1 to 10 messages and waits up to 20 s".to_owned(),
            ));
        }
        let mut waiting = Waiting::begin(wait);
        loop {
            let (number, bell, found) = {
                let mut state = self.state();
                let (number, bell) = state.bell(queue).ok_or_else(|| no_such(queue))?;
                (number, bell, state.pick(number, max, (self.clock)()))
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
                    if !waiting.sleep(bell, until_next).await {
                        return Ok(Vec::new());
                    }
                }
            }
        }
    }

    async fn delete(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        let number = self.number(queue)?;
        let ids = self.state().valid(number, receipts);
        if ids.is_empty() {
            return Ok(());
        }
        let state = Arc::clone(&self.state);
        self.db
            .write(move |tx| {
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
        let now = (self.clock)();
        let mut state = self.state();
        let number = state.number(queue).ok_or_else(|| no_such(queue))?;
        let ids = state.valid(number, receipts);
        state.released(number, &ids, now + delay, now);
        Ok(())
    }

    async fn bury(&self, queue: &QueueName, message: &Received, cause: &str) -> Result<(), QueueError> {
        let number = self.number(queue)?;
        let ids = self.state().valid(number, std::slice::from_ref(&message.receipt));
        if ids.is_empty() {
            return Ok(());
        }
        let (cause, state) = (cause.to_owned(), Arc::clone(&self.state));
        self.db
            .write(move |tx| {
                for &id in &ids {
                    rows::bury(tx, number, id, Some(&cause))?;
                }
                tx.on_commit(move || lock(&state).removed(number, &ids));
                Ok(())
            })
            .await
            .map_err(engine_write)
    }

    async fn receive_dead(&self, queue: &QueueName, max: usize) -> Result<Vec<DeadLetter>, QueueError> {
        if !(1..=MAX_BATCH).contains(&max) {
            return Err(QueueError::Invalid("a receive takes 1 to 10 dead letters".to_owned()));
        }
        let (number, now) = (self.number(queue)?, (self.clock)());
        self.db
            .write(move |tx| dead::receive(tx, number, max, now, now + DEAD_LETTER_HIDDEN))
            .await
            .map_err(engine_write)
    }

    async fn show_dead(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        let (number, receipts) = (self.number(queue)?, receipts.to_vec());
        self.db.write(move |tx| dead::show(tx, number, &receipts)).await.map_err(engine_write)
    }

    async fn forget(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        let (number, receipt) = (self.number(queue)?, receipt.clone());
        self.db.write(move |tx| dead::forget(tx, number, &receipt)).await.map_err(engine_write)
    }

    async fn dead_depth(&self, queue: &QueueName) -> Result<u64, QueueError> {
        let number = self.number(queue)?;
        self.db.read(move |conn| dead::depth(conn, number)).await.map_err(engine_read)
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, QueueError> {
        self.state().depth(queue, (self.clock)()).ok_or_else(|| no_such(queue))
    }
}

/// The state stays whole when a thread panics: every change of it is complete before anything can fail.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_such(queue: &QueueName) -> QueueError {
    QueueError::NoSuchQueue(queue.as_str().to_owned())
}

fn engine_read(error: ReadError) -> QueueError {
    QueueError::Engine(Box::new(error))
}

fn engine_write(error: WriteError<rusqlite::Error>) -> QueueError {
    QueueError::Engine(Box::new(error))
}
