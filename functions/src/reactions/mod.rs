//! Reactions: work that follows a commit. The journal drives it, so that it does not depend on the process that committed
//! (ARCHITECTURE.md, State).
//!
//! The relay sends every journal entry that has a reaction to the reactions queue. A reaction may run twice for an entry, so each
//! decides on the current state and does only the work that remains.

pub mod allocate_pool_slots;
pub mod artifacts;
pub mod brakes;
pub mod chains;
pub mod coherence;
pub mod crashes;
pub mod decision_log;
pub mod decision_timeouts;
pub mod finish_consolidations;
pub mod injections;
pub mod run_lifecycle;
pub mod search_index;
pub mod send_commands;
pub mod spending;
pub mod ticks;
pub mod trust;

use pilothouse_app::App;
use pilothouse_app::batch::{BatchOutcome, MessageOutcome};
use pilothouse_app::function::requirements::{REACT, REACTIONS};
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_app::trace;
use pilothouse_broker::{OutgoingMessage, QueueError, Received};
use pilothouse_domain::journal::{AggregateJournalEntry, AnyAggregateEntry, Cause, JournalEntry};
use pilothouse_domain::{AgentSessionId, ProjectEvent, ProjectId, SessionEvent, TraceParent};
use pilothouse_store::AggregateRef;
use serde::{Deserialize, Serialize};

pub const FUNCTION: EventFunction = EventFunction::new(
    "react",
    &[Subscription::queue(REACTIONS, |ctx, batch| {
        Box::pin(async move { Ok(process(&ctx.app, batch).await) })
    })],
    REACT,
)
.summary("Send commands, launch runs, allocate pool slots");

/// A reference to a journal entry on the reactions queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Pointer {
    Session(SessionPointer),
    Aggregate(AggregatePointer),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionPointer {
    session_id: AgentSessionId,
    sequence: u64,
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    traceparent: Option<TraceParent>,
}

/// A reference to an entry of an aggregate other than a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatePointer {
    #[serde(flatten)]
    aggregate: AggregateRef,
    sequence: u64,
}

const fn concerns(event: &SessionEvent) -> bool {
    send_commands::concerns(event)
        || run_lifecycle::concerns(event)
        || chains::concerns(event)
        || allocate_pool_slots::concerns(event)
        || finish_consolidations::concerns(event)
        || search_index::concerns(event)
}

/// Whether an event of a session in a project has a reaction for its agent or the project.
const fn concerns_project(event: &SessionEvent) -> bool {
    ticks::concerns(event)
        || trust::concerns(event)
        || spending::concerns(event)
        || decision_timeouts::concerns(event)
        || decision_log::concerns_of_session(event)
        || crashes::concerns(event)
        || coherence::concerns(event)
        || injections::concerns(event)
}

pub fn message(entry: &JournalEntry) -> Option<OutgoingMessage> {
    let in_project = entry.project.is_some();
    if !entry.events.iter().any(|event| concerns(event) || (in_project && concerns_project(event))) {
        return None;
    }
    let (session_id, sequence) = (entry.session_id, entry.sequence);
    // The span ends with the invocation, when the message is sent.
    let traceparent = trace::begin(entry.traceparent, || about("relay", "journal", entry)).place();
    let pointer = SessionPointer { session_id, sequence, traceparent };
    let body = serde_json::to_string(&Pointer::Session(pointer)).ok()?;
    Some(OutgoingMessage::new(entry.session_id.to_string(), entry.id.to_string(), body))
}

pub fn message_for_aggregate(entry: &AnyAggregateEntry) -> Option<OutgoingMessage> {
    match entry {
        AnyAggregateEntry::Artifact(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::Brake(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::Chain(entry) if entry.events.iter().any(chains::concerns_of_chain) => {
            message_for_entry_of(entry)
        }
        AnyAggregateEntry::Coherence(entry) if entry.events.iter().any(coherence::concerns_of_issue) => {
            message_for_entry_of(entry)
        }
        AnyAggregateEntry::Project(entry)
            if entry.events.iter().any(|event| {
                configures(event)
                    || decision_log::concerns(event)
                    || decision_timeouts::concerns_project(event)
            }) =>
        {
            message_for_entry_of(entry)
        }
        AnyAggregateEntry::ProjectAgent(entry)
            if entry.events.iter().any(|event| {
                decision_log::concerns_of_agent(event) || injections::concerns_of_agent(event)
            }) =>
        {
            message_for_entry_of(entry)
        }
        AnyAggregateEntry::Chain(_)
        | AnyAggregateEntry::Coherence(_)
        | AnyAggregateEntry::Skill(_)
        | AnyAggregateEntry::Template(_)
        | AnyAggregateEntry::Project(_)
        | AnyAggregateEntry::ProjectAgent(_)
        | AnyAggregateEntry::ProjectAccount(_) => None,
    }
}

/// Whether an event of a project may change the configuration of its clock, its account and its agents.
const fn configures(event: &ProjectEvent) -> bool {
    match event {
        ProjectEvent::Created { .. } | ProjectEvent::Updated {} => true,
        ProjectEvent::ControlModeChanged { .. }
        | ProjectEvent::TicksAdvanced { .. }
        | ProjectEvent::AgentAdded { .. }
        | ProjectEvent::Archived {}
        | ProjectEvent::Restored {} => false,
    }
}

fn message_for_entry_of<E>(entry: &AggregateJournalEntry<E>) -> Option<OutgoingMessage> {
    let aggregate = AggregateRef { kind: entry.kind.clone(), id: entry.aggregate_id.clone() };
    let pointer = AggregatePointer { aggregate, sequence: entry.sequence };
    let body = serde_json::to_string(&Pointer::Aggregate(pointer)).ok()?;
    Some(OutgoingMessage::new(format!("{}-{}", entry.kind, entry.aggregate_id), entry.id.to_string(), body))
}

fn about(function: &'static str, source: &'static str, entry: &JournalEntry) -> trace::About {
    let run = match &entry.cause {
        Cause::Agent { run_id, .. } => Some(*run_id),
        _ => entry.events.iter().find_map(send_commands::run_of),
    };
    trace::About { function, source, session: entry.session_id, run, kind: "journal_entry".to_owned() }
}

pub async fn process_and_settle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let outcome = process(app, batch).await;
    pilothouse_app::batch::settle(app.broker.as_ref(), &queues::reactions(), outcome).await
}

/// Processes a batch of the reactions queue. The caller settles it. The first failure of a session stops that session, not the
/// others.
pub async fn process(app: &App, batch: Vec<Received>) -> BatchOutcome {
    pilothouse_app::batch::process_batch(app, &queues::reactions(), batch, |app, message| async move {
        react(&app, &message.body).await.map(|()| MessageOutcome::Done)
    })
    .await
}

async fn react(app: &App, body: &str) -> Result<(), Problem> {
    match serde_json::from_str(body).map_err(Problem::internal)? {
        Pointer::Session(pointer) => react_to_session(app, pointer).await,
        Pointer::Aggregate(pointer) => react_to_aggregate(app, &pointer).await,
    }
}

async fn react_to_aggregate(app: &App, pointer: &AggregatePointer) -> Result<(), Problem> {
    let AggregatePointer { aggregate, sequence } = pointer;
    let Some(entry) = app.store.aggregate_journal_entry(aggregate, *sequence).await? else {
        let AggregateRef { kind, id } = aggregate;
        return Err(Problem::internal(format!("journal entry {sequence} of {kind} {id} is missing")));
    };
    let mut outcome = Ok(());
    match entry {
        AnyAggregateEntry::Artifact(entry) => {
            for event in &entry.events {
                outcome = outcome.and(artifacts::react(app, &entry, event).await);
            }
        }
        AnyAggregateEntry::Brake(entry) => {
            for event in &entry.events {
                outcome = outcome.and(brakes::react(app, event).await);
            }
            outcome = outcome.and(decision_log::react_of_brake(app, &entry).await);
        }
        AnyAggregateEntry::Chain(entry) => {
            for event in &entry.events {
                outcome = outcome.and(chains::react_of_chain(app, event).await);
            }
        }
        AnyAggregateEntry::Coherence(entry) => {
            for event in &entry.events {
                outcome = outcome.and(coherence::react_of_issue(app, &entry, event).await);
            }
        }
        AnyAggregateEntry::Project(entry) => {
            let id: ProjectId = entry.aggregate_id.parse().map_err(Problem::internal)?;
            if entry.events.iter().any(configures) {
                outcome = outcome.and(ticks::configure(app, id).await);
                outcome = outcome.and(trust::configure(app, id).await);
                outcome = outcome.and(spending::configure(app, id).await);
            }
            if entry.events.iter().any(decision_timeouts::concerns_project) {
                outcome = outcome.and(decision_timeouts::react_of_project(app, id).await);
            }
            if entry.events.iter().any(injections::concerns_of_project) {
                outcome = outcome.and(injections::react_of_project(app, id).await);
            }
            outcome = outcome.and(decision_log::react_of_project(app, &entry).await);
        }
        AnyAggregateEntry::ProjectAgent(entry) => {
            if entry.events.iter().any(injections::concerns_of_agent) {
                let id = entry.aggregate_id.parse().map_err(Problem::internal)?;
                outcome = outcome.and(injections::react_of_agent(app, id).await);
            }
            outcome = outcome.and(decision_log::react_of_agent(app, &entry).await);
        }
        AnyAggregateEntry::Skill(_)
        | AnyAggregateEntry::Template(_)
        | AnyAggregateEntry::ProjectAccount(_) => {}
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
    // The future of all reactions is large. Boxing it keeps the futures that await it small.
    let outcome = span.run(Box::pin(react_to(app, entry))).await;
    span.end(outcome.as_ref().err().map(|problem| problem as _));
    outcome
}

async fn react_to(app: &App, entry: &JournalEntry) -> Result<(), Problem> {
    // A failure must not prevent the other reactions: a slot is freed even if a process cannot be reached.
    let mut outcome = Ok(());
    for event in &entry.events {
        outcome = outcome.and(run_lifecycle::react(app, entry, event).await);
        outcome = outcome.and(send_commands::react(app, entry, event).await);
        // Chains come before slots, because a handoff transfers the slot (decision 21). If it fails, the retry still finds the
        // slot.
        match chains::react(app, entry, event).await {
            Ok(()) => outcome = outcome.and(allocate_pool_slots::react(app, entry, event).await),
            failed => outcome = outcome.and(failed),
        }
        outcome = outcome.and(finish_consolidations::react(app, entry, event).await);
        outcome = outcome.and(trust::react(app, entry, event).await);
        outcome = outcome.and(crashes::react(app, entry, event).await);
    }
    outcome = outcome.and(ticks::react(app, entry).await);
    outcome = outcome.and(spending::react(app, entry).await);
    outcome = outcome.and(decision_timeouts::react(app, entry).await);
    outcome = outcome.and(decision_log::react_of_session(app, entry).await);
    outcome = outcome.and(search_index::react(app, entry).await);
    outcome = outcome.and(coherence::react(app, entry).await);
    outcome = outcome.and(injections::react(app, entry).await);
    outcome
}
