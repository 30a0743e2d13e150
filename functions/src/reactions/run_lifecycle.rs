//! Launches requested runs, kills runs, and cleans up after ended runs (decisions 7, 12, 21).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::placement::launch_request;
use pilothouse_app::queues;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{RunId, SessionEvent, StopMode};
use pilothouse_runtime::StopMode as Signal;

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::RunRequested { .. }
            | SessionEvent::RunStopOrdered { mode: StopMode::Kill, .. }
            | SessionEvent::RunEnded { .. }
    )
}

pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    match event {
        SessionEvent::RunRequested { run_id, .. } => launch(app, entry, *run_id).await,
        SessionEvent::RunStopOrdered { command, mode: StopMode::Kill } => {
            app.runtime.stop(entry.session_id, command.run_id, Signal::Kill).await.map_err(Problem::internal)
        }
        SessionEvent::RunEnded { run_id, .. } => {
            // The domain may end a run before its process has exited, so the process is killed (decision 13).
            app.runtime.stop(entry.session_id, *run_id, Signal::Kill).await.map_err(Problem::internal)?;
            app.broker.remove(&queues::commands(*run_id)).await.map_err(Problem::internal)?;
            Ok(app.store.forget_session_of_run(*run_id).await?)
        }
        _ => Ok(()),
    }
}

async fn launch(app: &App, entry: &JournalEntry, run_id: RunId) -> Result<(), Problem> {
    let Some(session) = app.store.session(entry.session_id).await? else { return Ok(()) };
    let request = launch_request(&app.store, &session).await?;
    let Some(request) = request.filter(|request| request.run_id == run_id) else {
        return Ok(());
    };
    // Recorded first, so that a failure of a later step leaves a queue that can be cleaned up.
    app.store.record_session_of_run(run_id, entry.session_id).await?;
    queues::create_commands(app.broker.as_ref(), run_id).await.map_err(Problem::internal)?;
    app.runtime.launch(request).await.map_err(Problem::internal)
}
