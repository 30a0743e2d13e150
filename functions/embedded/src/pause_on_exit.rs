//! Pauses the agents of this machine before the server ends.

use std::time::Duration;

use pilothouse_app::App;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_functions::commands::sessions::pause;
use pilothouse_worker::Worker;
use tokio::time::{sleep, timeout};

/// How long agents may take. An agent in a long call pauses after it, with or without a server.
const LIMIT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);

/// Requests a pause of all running sessions, and waits until the agents confirm it.
pub(super) async fn pause_agents(app: &App, worker: &Worker) {
    let mut pausing = Vec::new();
    for (session, ..) in worker.runs() {
        match pause::before_exit(app, session).await {
            Ok(true) => pausing.push(session),
            Ok(false) => {}
            Err(error) => tracing::warn!(%session, ?error, "failed to pause an agent before the exit"),
        }
    }
    let confirmed = async {
        for session in pausing {
            while is_pausing(app, session).await {
                sleep(POLL).await;
            }
        }
    };
    if timeout(LIMIT, confirmed).await.is_err() {
        tracing::warn!(
            "not every agent has confirmed its pause in time; they pause after their current step"
        );
    }
}

async fn is_pausing(app: &App, session: AgentSessionId) -> bool {
    let session = app.store.session(session).await.ok().flatten();
    session.is_some_and(|session| session.status() == AgentSessionStatus::Pausing)
}
