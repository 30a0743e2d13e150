//! Launches the runs that were minted, ends those that were ordered to end, and tidies up after those that are over
//! (rulings 7, 12, 21).

use std::collections::BTreeMap;

use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSession, DomainEvent, RunId, StopMode};
use pilothouse_runtime::StopMode as Signal;
use pilothouse_wire::launch::LaunchRequest;

use crate::app::App;
use crate::edge::Problem;
use crate::queues;

/// Whether an event is about the process of a run.
pub(super) const fn concerns(event: &DomainEvent) -> bool {
    matches!(
        event,
        DomainEvent::RunRequested { .. }
            | DomainEvent::RunStopOrdered { mode: StopMode::Kill, .. }
            | DomainEvent::RunEnded { .. }
    )
}

/// Does what `event` orders.
pub(super) async fn react(app: &App, entry: &JournalEntry, event: &DomainEvent) -> Result<(), Problem> {
    match event {
        DomainEvent::RunRequested { run_id, .. } => launch(app, entry, *run_id).await,
        DomainEvent::RunStopOrdered { command, mode: StopMode::Kill } => {
            app.runtime.stop(entry.session_id, command.run_id, Signal::Kill).await.map_err(Problem::internal)
        }
        DomainEvent::RunEnded { run_id, .. } => {
            // A run may count as dead although its process was not seen to end (ruling 13).
            app.runtime.stop(entry.session_id, *run_id, Signal::Kill).await.map_err(Problem::internal)?;
            app.broker.remove(&queues::commands(*run_id)).await.map_err(Problem::internal)?;
            Ok(app.store.forget_run(*run_id).await?)
        }
        _ => Ok(()),
    }
}

/// What a session asks of the worker that runs it: those of its labels that begin with `worker/`.
fn worker_labels(session: &AgentSession) -> BTreeMap<String, String> {
    let labels = session.settings().labels.iter();
    labels
        .filter_map(|(name, value)| Some((name.strip_prefix("worker/")?.to_owned(), value.clone())))
        .collect()
}

/// What is to be run for the current run of a session; nothing when it has none.
pub(crate) fn request_of(session: &AgentSession) -> Option<LaunchRequest> {
    let run = session.run()?;
    Some(LaunchRequest {
        session_id: session.id(),
        run_id: run.id,
        ordinal: run.ordinal,
        retry_count: session.retry_count(),
        adapter: session.settings().adapter.as_str().to_owned(),
        working_directory: session.working_directory().as_str().to_owned(),
        worker_labels: worker_labels(session),
    })
}

async fn launch(app: &App, entry: &JournalEntry, run_id: RunId) -> Result<(), Problem> {
    let session = app.store.session(entry.session_id).await?;
    let Some(request) = session.as_ref().and_then(request_of).filter(|request| request.run_id == run_id)
    else {
        return Ok(());
    };
    // First, so that the queue can be looked after whatever happens next.
    app.store.remember_run(run_id, entry.session_id).await?;
    queues::create_commands(app.broker.as_ref(), run_id).await.map_err(Problem::internal)?;
    app.runtime.launch(request).await.map_err(Problem::internal)
}
