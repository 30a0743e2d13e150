//! Reactions: what must happen after a commit, driven by the journal, so that nothing depends on the process that
//! committed (architecture: State).
//!
//! The relay hands every journal entry that something follows from to the reactions queue; here it is taken from there.
//! A reaction may run twice for one entry: each looks at the state as it is now and does what is still to be done.

pub mod chains;
pub mod finish_consolidations;
pub mod hand_on_slots;
pub mod owned;
pub mod run_lifecycle;
pub mod send_commands;

use pilothouse_broker::{Outgoing, QueueError, Received};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::{AgentSessionId, DomainEvent, OwnedEntry, TraceParent};
use pilothouse_store::OwnedRef;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::edge::Problem;
use crate::queues::{self, Settlement, Worked};
use crate::trace;

/// Names an entry on the reactions queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Pointer {
    Session(SessionPointer),
    Owned(OwnedPointer),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionPointer {
    session_id: AgentSessionId,
    sequence: u64,
    /// Where the relaying of the entry stands in a trace.
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
}

/// Of an aggregate that is no session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedPointer {
    #[serde(flatten)]
    aggregate: OwnedRef,
    sequence: u64,
}

/// Whether something follows from an event.
const fn concerns(event: &DomainEvent) -> bool {
    send_commands::concerns(event)
        || run_lifecycle::concerns(event)
        || chains::concerns(event)
        || hand_on_slots::concerns(event)
        || finish_consolidations::concerns(event)
}

/// The message for an entry that something follows from.
pub fn message(entry: &JournalEntry) -> Option<Outgoing> {
    if !entry.events.iter().any(concerns) {
        return None;
    }
    let (session_id, sequence) = (entry.session_id, entry.sequence);
    // It ends with the invocation, when the message is sent.
    let traceparent = trace::begin(entry.traceparent, || about("relay", "journal", entry)).place();
    let pointer = SessionPointer { session_id, sequence, traceparent };
    let body = serde_json::to_string(&Pointer::Session(pointer)).ok()?;
    Some(Outgoing::new(entry.session_id.to_string(), entry.id.to_string(), body))
}

/// The message for an entry of an aggregate that is no session, if something follows from it.
pub fn message_of_owned(entry: &OwnedEntry) -> Option<Outgoing> {
    if !entry.events.iter().any(owned::concerns) {
        return None;
    }
    let aggregate = OwnedRef { kind: entry.kind.clone(), id: entry.aggregate_id.clone() };
    let pointer = OwnedPointer { aggregate, sequence: entry.sequence };
    let body = serde_json::to_string(&Pointer::Owned(pointer)).ok()?;
    Some(Outgoing::new(format!("{}-{}", entry.kind, entry.aggregate_id), entry.id.to_string(), body))
}

fn about(function: &'static str, source: &'static str, entry: &JournalEntry) -> trace::About {
    let run = match &entry.cause {
        Cause::Agent { run_id, .. } => Some(*run_id),
        _ => entry.events.iter().find_map(send_commands::run_of),
    };
    trace::About { function, source, session: entry.session_id, run, kind: "journal_entry".to_owned() }
}

/// Takes one batch of the reactions queue and settles it.
pub async fn handle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let settlement = process(app, batch).await;
    queues::settle(app.broker.as_ref(), &queues::reactions(), settlement).await
}

/// Takes one batch of the reactions queue and leaves it to the caller to settle it. The first failure of a session
/// stops that session, not the others.
pub async fn process(app: &App, batch: Vec<Received>) -> Settlement {
    queues::work_off(app, &queues::reactions(), batch, |app, message| async move {
        react(&app, &message.body).await.map(|()| Worked::Done)
    })
    .await
}

async fn react(app: &App, body: &str) -> Result<(), Problem> {
    match serde_json::from_str(body).map_err(Problem::internal)? {
        Pointer::Session(pointer) => react_to_session(app, pointer).await,
        Pointer::Owned(pointer) => react_to_owned(app, &pointer).await,
    }
}

async fn react_to_owned(app: &App, pointer: &OwnedPointer) -> Result<(), Problem> {
    let OwnedPointer { aggregate, sequence } = pointer;
    let Some(entry) = app.store.owned_entry(aggregate, *sequence).await? else {
        let OwnedRef { kind, id } = aggregate;
        return Err(Problem::internal(format!("journal entry {sequence} of {kind} {id} is missing")));
    };
    let mut outcome = Ok(());
    for event in &entry.events {
        outcome = outcome.and(owned::react(app, &entry, event).await);
    }
    outcome
}

async fn react_to_session(app: &App, pointer: SessionPointer) -> Result<(), Problem> {
    let entries = app.store.journal(pointer.session_id, pointer.sequence.saturating_sub(1), 1).await?;
    let Some(entry) = entries.first().filter(|entry| entry.sequence == pointer.sequence) else {
        return Err(Problem::internal(format!(
            "journal entry {} of session {} is missing",
            pointer.sequence, pointer.session_id
        )));
    };
    let span = trace::begin(pointer.traceparent, || about("react", "reactions.fifo", entry));
    // All reactions make a large future: on the heap, so that what waits for it is none.
    let outcome = span.run(Box::pin(react_to(app, entry))).await;
    span.end(outcome.as_ref().err().map(|problem| problem as _));
    outcome
}

async fn react_to(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    // One that fails keeps none of the others back: a slot is freed although a process cannot be reached.
    let mut outcome = Ok(());
    for event in &entry.events {
        outcome = outcome.and(run_lifecycle::react(app, entry, event).await);
        outcome = outcome.and(send_commands::react(app, entry, event).await);
        // Before slots are handed on, as a handoff takes the slot along (ruling 21); one that failed is tried again, and
        // the slot is still there then.
        match chains::react(app, entry, event).await {
            Ok(()) => outcome = outcome.and(hand_on_slots::react(app, entry, event).await),
            failed => outcome = outcome.and(failed),
        }
        outcome = outcome.and(finish_consolidations::react(app, entry, event).await);
    }
    outcome
}
