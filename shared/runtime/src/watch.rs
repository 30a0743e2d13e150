//! A run from its process to its reported end: watch, drain, report, note.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Pid;
use pilothouse_wire::launch::RunExit;
use tokio::time::{Instant, sleep};

use crate::exit;
use crate::lock::Look;
use crate::process::{self, OwnProcess};
use crate::registry::{Phase, Run};
use crate::worker::Inner;
use crate::{drain, retention};

/// How long the system may take to reap a process that lost its parent.
const REAPING: Duration = Duration::from_secs(5);

/// What the watch begins with.
pub(crate) enum Beginning {
    /// A child of this process.
    Child(Arc<OwnProcess>),
    /// A process that may live, of an earlier server.
    Adopted,
    /// A run that is over already.
    Over(RunExit),
}

/// Sees a run to its end. May be cut off anywhere: the next worker goes on from what the directory says.
pub(crate) async fn see_to_the_end(inner: &Arc<Inner>, run: &Arc<Run>, beginning: Beginning) {
    let mut exit = match beginning {
        Beginning::Child(process) => child(inner, run, &process).await,
        Beginning::Adopted => adopted(inner, run).await,
        Beginning::Over(exit) => exit,
    };
    inner.registry.enter(run, Phase::Over);
    note(run, &exit);
    if !exit.drained {
        exit.drained = drain::drain(&inner.config, run).await;
        note(run, &exit);
    }
    report(inner, run, &exit).await;
    if let Err(error) = run.dir.finish(&exit) {
        tracing::error!(run = %run.id, %error, "a reported end cannot be noted, and will be reported again");
    }
    inner.registry.remove(run.id);
    retention::prune_in_background(inner);
}

async fn child(inner: &Arc<Inner>, run: &Arc<Run>, process: &OwnProcess) -> RunExit {
    let Some(status) = process.ended().await else { return exit::unobserved(&run.dir) };
    if run.engine().is_some() && matches!(run.look(), Ok(Look::Held(_))) {
        tracing::warn!(run = %run.id, %status, "an engine's client ended before its container");
        inner.registry.enter(run, Phase::Adopted);
        return adopted(inner, run).await;
    }
    if status.code() == Some(exit::RUN_IS_TAKEN) && matches!(run.look(), Ok(Look::Held(_) | Look::Free)) {
        // Another sidecar runs this run, or did a moment ago. It is that one whose end matters.
        tracing::warn!(run = %run.id, "the run has a sidecar already");
        inner.registry.enter(run, Phase::Adopted);
        return adopted(inner, run).await;
    }
    exit::of_child(status, &run.dir)
}

/// Watches the lock of a run whose process is not our child.
async fn adopted(inner: &Arc<Inner>, run: &Arc<Run>) -> RunExit {
    let give_up = Instant::now() + inner.config.timing.start_grace;
    let mut seen = None;
    loop {
        match run.look() {
            Ok(Look::Held(pid)) => seen = Some(pid),
            Ok(Look::Free) => {
                // What was in a container has ended with it.
                if let Some(group) = seen.filter(|_| run.engine().is_none()) {
                    end_left_behind(inner, group).await;
                }
                return exit::unobserved(&run.dir);
            }
            Ok(Look::Untouched) if Instant::now() < give_up => {
                // Whoever was told to stop it may have closed it.
                if let Ok(Some(exit)) = run.dir.exit() {
                    return exit;
                }
            }
            Ok(Look::Untouched) => match never_started(run) {
                Ok(Some(exit)) => return exit,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(run = %run.id, %error, "a run without a process cannot be closed");
                }
            },
            Err(error) => tracing::error!(run = %run.id, %error, "the lock of a run cannot be looked at"),
        }
        sleep(inner.config.timing.poll).await;
    }
}

/// Ends what an adopted sidecar left behind, as soon as it is reaped by whoever inherited it.
async fn end_left_behind(inner: &Inner, group: Pid) {
    let give_up = Instant::now() + REAPING;
    while !process::end_left_behind(group) && Instant::now() < give_up {
        sleep(inner.config.timing.poll).await;
    }
}

/// Notes that a run never started, unless its sidecar takes the lock first.
fn never_started(run: &Run) -> io::Result<Option<RunExit>> {
    let _one_at_a_time = run.phase();
    run.dir.close_unstarted()
}

fn note(run: &Run, exit: &RunExit) {
    if let Err(error) = run.dir.note_exit(exit) {
        // The end is reported all the same; only how it came would be lost if the server were killed now.
        tracing::error!(run = %run.id, %error, "the end of a run cannot be noted");
    }
}

async fn report(inner: &Inner, run: &Run, exit: &RunExit) {
    let timing = &inner.config.timing;
    let mut wait = timing.first_retry;
    while let Err(error) = inner.ports.events.exited(run.session, run.id, exit.clone()).await {
        tracing::warn!(run = %run.id, error = &error as &dyn std::error::Error, "the end of a run is reported again");
        sleep(wait).await;
        wait = (wait * 2).min(timing.longest_retry);
    }
    let RunExit { code, signal, drained, .. } = exit;
    tracing::info!(run = %run.id, session = %run.session, code, signal, drained, "a run is over");
}
