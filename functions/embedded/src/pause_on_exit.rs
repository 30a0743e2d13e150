//! Pauses the agents of this machine before the server ends.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use pilothouse_app::App;
use pilothouse_domain::AgentSessionId;
use pilothouse_functions::commands::sessions::pause::{self, BeforeExit};
use pilothouse_runtime::ProcessState;
use pilothouse_worker::Worker;
use tokio::time::sleep;

use super::components::deadline_divisor;

/// How long agents may take. An agent in a long call pauses after it, with or without a server.
const LIMIT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);

/// Pauses all working agents, also those that start or resume meanwhile, and waits until they confirm it. Returns how many did not
/// confirm it in time, or cannot pause.
pub(super) async fn pause_agents(app: &App, worker: &Worker) -> usize {
    let give_up = Instant::now() + LIMIT / deadline_divisor();
    let mut failed = HashSet::new();
    loop {
        let mut unpaused = BTreeMap::new();
        for session in sessions(worker) {
            match pause::before_exit(app, session).await {
                Ok(BeforeExit::AtRest) => {}
                Ok(state) => _ = unpaused.insert(session, state),
                Err(error) => {
                    if failed.insert(session) {
                        tracing::warn!(%session, ?error, "failed to pause an agent; retrying");
                    }
                    unpaused.insert(session, BeforeExit::Changing);
                }
            }
        }
        let is_final = unpaused.values().all(|state| *state == BeforeExit::CannotPause);
        if is_final || Instant::now() >= give_up {
            for (session, state) in &unpaused {
                tracing::warn!(%session, ?state, "an agent has not confirmed its pause before the exit");
            }
            return unpaused.len();
        }
        sleep(POLL).await;
    }
}

/// The sessions with a process on this machine.
fn sessions(worker: &Worker) -> HashSet<AgentSessionId> {
    let runs = worker.runs().into_iter();
    runs.filter(|(.., state)| *state == ProcessState::Alive).map(|(session, ..)| session).collect()
}
