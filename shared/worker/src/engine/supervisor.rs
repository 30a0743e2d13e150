//! Supervises a run from its process to its reported exit: wait, drain, report, record.

use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Pid;
use pilothouse_wire::launch::RunExit;
use tokio::time::{Instant, sleep};

use super::drain::{self, DrainOutcome};
use super::exit;
use super::inner::Inner;
use super::process::{self, ChildProcess};
use super::registry::{Run, RunPhase};
use super::run_lock::LockState;
use super::{containers, retention, session_lock};

/// How long the system may take to reap an orphaned process.
const REAPING: Duration = Duration::from_secs(5);

pub(crate) enum RunStart {
    Child(Arc<ChildProcess>),
    /// A process of an earlier server, which may live.
    Adopted,
    Ended(RunExit),
}

/// Supervises a run to its end. May be interrupted anywhere: the next worker continues from the run directory.
pub(crate) async fn supervise(inner: &Arc<Inner>, run: &Arc<Run>, mut beginning: RunStart) {
    let mut exit = loop {
        beginning = match beginning {
            RunStart::Child(process) => supervise_child(inner, run, &process).await,
            RunStart::Adopted => supervise_adopted(inner, run).await,
            RunStart::Ended(exit) => break exit,
        };
    };
    inner.registry.set_phase(run, RunPhase::Ended);
    record(run, &exit);
    // Decision 15: an exit is not reported while a process of the run lives.
    if let Some(engine) = run.engine() {
        containers::end(&engine, run.id).await;
    }
    session_lock::end_survivors(inner, run).await;
    drain_and_report(inner, run, &mut exit).await;
    if let Err(error) = run.dir.mark_finished(&exit) {
        tracing::error!(run = %run.id, %error, "failed to record a reported exit; it will be reported again");
    }
    inner.registry.remove(run.id);
    retention::prune_in_background(inner);
}

async fn supervise_child(inner: &Arc<Inner>, run: &Arc<Run>, process: &ChildProcess) -> RunStart {
    let Some(status) = process.ended().await else { return RunStart::Ended(exit::unknown(&run.dir.log())) };
    if run.engine().is_some() && matches!(run.inspect(), Ok(LockState::Held(_))) {
        tracing::warn!(run = %run.id, %status, "the engine's client ended before its container");
        inner.registry.set_phase(run, RunPhase::Adopted);
        return RunStart::Adopted;
    }
    if status.code() == Some(exit::RUN_IS_TAKEN)
        && matches!(run.inspect(), Ok(LockState::Held(_) | LockState::Released))
    {
        // Another sidecar runs this run, or did a moment ago: supervise that one.
        tracing::warn!(run = %run.id, "the run already has a sidecar");
        inner.registry.set_phase(run, RunPhase::Adopted);
        return RunStart::Adopted;
    }
    RunStart::Ended(exit::from_status(status, &run.dir.log()))
}

/// Watches the lock of a run whose process is not our child. Starts a run that an earlier server prepared and never started.
async fn supervise_adopted(inner: &Arc<Inner>, run: &Arc<Run>) -> RunStart {
    let deadline = Instant::now() + inner.config.timing.start_grace;
    let mut seen = None;
    loop {
        match run.inspect() {
            Ok(LockState::Held(pid)) => seen = Some(pid),
            Ok(LockState::Released) => {
                // The processes of a container end with it.
                if let Some(group) = seen.filter(|_| run.engine().is_none()) {
                    kill_leftover_group(inner, group).await;
                }
                return RunStart::Ended(exit::unknown(&run.dir.log()));
            }
            Ok(LockState::NeverHeld) if Instant::now() < deadline => {
                // A stop request may have closed the run.
                if let Ok(Some(exit)) = run.dir.exit() {
                    return RunStart::Ended(exit);
                }
            }
            Ok(LockState::NeverHeld) => match inner.start_prepared(run).await {
                Ok(beginning) => return beginning,
                Err(error) => {
                    tracing::warn!(run = %run.id, error = &error as &dyn std::error::Error, "failed to start a prepared run; retrying");
                    sleep(inner.config.timing.first_retry_delay).await;
                }
            },
            Err(error) => tracing::error!(run = %run.id, %error, "failed to inspect the lock of a run"),
        }
        sleep(inner.config.timing.poll_interval).await;
    }
}

/// Kills what an adopted sidecar left behind, after its new parent has reaped it.
async fn kill_leftover_group(inner: &Inner, group: Pid) {
    let deadline = Instant::now() + REAPING;
    while !process::kill_leftover_group(group) && Instant::now() < deadline {
        sleep(inner.config.timing.poll_interval).await;
    }
}

fn record(run: &Run, exit: &RunExit) {
    if let Err(error) = run.dir.record_exit(exit) {
        // The exit is reported anyway; a kill of the server now would lose its details.
        tracing::error!(run = %run.id, %error, "failed to record the exit of a run");
    }
}

/// Drains the spool, then reports the exit, and repeats both until the report is accepted. The control plane ends the run with
/// that report, so the rest of a spool that could not be drained is lost.
async fn drain_and_report(inner: &Inner, run: &Run, exit: &mut RunExit) {
    let (timing, events) = (&inner.config.timing, &inner.ports.events);
    let mut wait = timing.first_retry_delay;
    let mut outcome = if exit.drained { DrainOutcome::Drained } else { DrainOutcome::Failed };
    loop {
        let mut gives_up = true;
        if matches!(outcome, DrainOutcome::Failed) {
            // An attempt that began in an outage says nothing about the spool, even if the outage ends before the report.
            gives_up = events.is_ready().await;
            outcome = drain::drain(&inner.config, run).await;
            exit.drained = matches!(outcome, DrainOutcome::Drained);
            record(run, exit);
        }
        if matches!(outcome, DrainOutcome::Failed) && !gives_up {
            tracing::warn!(run = %run.id, "failed to drain the spool while the control plane was away; retrying");
        } else {
            match events.report_exit(run.session, run.id, exit.clone()).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(run = %run.id, error = &error as &dyn std::error::Error, "failed to report the exit of a run; retrying");
                }
            }
        }
        sleep(wait).await;
        wait = (wait * 2).min(timing.max_retry_delay);
    }
    let RunExit { code, signal, drained, .. } = &*exit;
    tracing::info!(run = %run.id, session = %run.session, code, signal, drained, "a run ended");
}
