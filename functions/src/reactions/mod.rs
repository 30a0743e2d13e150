//! Reactions: what must happen after a commit, driven by the journal, so that nothing depends on the process that
//! committed (architecture: State).
//!
//! The relay hands every journal entry that something follows from to the reactions queue; here it is taken from there.
//! A reaction may run twice for one entry: each looks at the state as it is now and does what is still to be done.

pub mod hand_on_slots;
pub mod run_lifecycle;
pub mod send_commands;

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_broker::{Outgoing, QueueError, Received};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSessionId, DomainEvent};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::edge::Problem;
use crate::intake::chain;
use crate::queues;

/// Names an entry on the reactions queue.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    session_id: AgentSessionId,
    sequence: u64,
}

/// Whether something follows from an event.
const fn concerns(event: &DomainEvent) -> bool {
    send_commands::concerns(event) || run_lifecycle::concerns(event) || hand_on_slots::concerns(event)
}

/// The message for an entry that something follows from.
pub fn message(entry: &JournalEntry) -> Option<Outgoing> {
    if !entry.events.iter().any(concerns) {
        return None;
    }
    let pointer = Pointer { session_id: entry.session_id, sequence: entry.sequence };
    Some(Outgoing {
        group: entry.session_id.to_string(),
        deduplication_id: entry.id.to_string(),
        body: serde_json::to_string(&pointer).ok()?,
        delay: Duration::ZERO,
    })
}

/// Takes one batch of the reactions queue. The first failure of a session stops that session, not the others.
pub async fn handle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let queue = queues::reactions();
    let mut done = Vec::new();
    let mut failed: Vec<Received> = Vec::new();
    for message in batch {
        if failed.iter().any(|earlier| earlier.group == message.group) {
            failed.push(message);
            continue;
        }
        match react(app, &message.body).await {
            Ok(()) => done.push(message.receipt),
            Err(cause) => {
                let tries = queues::tries(&cause);
                let cause = chain(&cause);
                tracing::warn!(group = %message.group, %cause, receive_count = message.receive_count, "a reaction failed");
                if message.receive_count >= tries {
                    app.broker.bury(&queue, &message.receipt, &cause).await?;
                } else {
                    failed.push(message);
                }
            }
        }
    }
    app.broker.delete(&queue, &done).await?;
    // A group comes back together, when the message that failed does.
    let groups: BTreeSet<_> = failed.iter().map(|message| message.group.clone()).collect();
    for group in groups {
        let of_group: Vec<_> = failed.iter().filter(|message| message.group == group).collect();
        let receipts: Vec<_> = of_group.iter().map(|message| message.receipt.clone()).collect();
        let pause = queues::pause(of_group.first().map_or(1, |message| message.receive_count));
        app.broker.release(&queue, &receipts, pause).await?;
    }
    Ok(())
}

async fn react(app: &App, body: &str) -> Result<(), Problem> {
    let pointer: Pointer = serde_json::from_str(body).map_err(Problem::internal)?;
    let entries = app.store.journal(pointer.session_id, pointer.sequence.saturating_sub(1), 1).await?;
    let Some(entry) = entries.first().filter(|entry| entry.sequence == pointer.sequence) else {
        return Err(Problem::internal(format!(
            "journal entry {} of session {} is missing",
            pointer.sequence, pointer.session_id
        )));
    };
    // One that fails keeps none of the others back: a slot is freed although a process cannot be reached.
    let mut outcome = Ok(());
    for event in &entry.events {
        outcome = outcome.and(run_lifecycle::react(app, entry, event).await);
        outcome = outcome.and(send_commands::react(app, entry, event).await);
        outcome = outcome.and(hand_on_slots::react(app, entry, event).await);
    }
    outcome
}
