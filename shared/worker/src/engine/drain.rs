//! Publishes what a sidecar left in its spool.

use std::fs;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout_at};

use super::config::WorkerConfig;
use super::registry::Run;
use super::run_lock::LockState;
use super::{exit, process};

pub(crate) enum DrainOutcome {
    /// Everything was published.
    Drained,
    /// A later attempt may succeed: the spool keeps unpublished events.
    Failed,
    /// The broker refuses the run for good.
    Refused,
}

/// Runs `pilothouse-sidecar drain` after the sidecar ended, and retries within the time limit.
pub(crate) async fn drain(config: &WorkerConfig, run: &Run) -> DrainOutcome {
    if !run.dir.spool().exists() {
        return DrainOutcome::Drained; // the sidecar never published anything
    }
    let deadline = Instant::now() + config.timing.drain_timeout;
    // A `drain` of the earlier server may still hold the lock.
    while matches!(run.inspect(), Ok(LockState::Held(_))) {
        if timeout_at(deadline, sleep(config.timing.poll_interval)).await.is_err() {
            return DrainOutcome::Failed;
        }
    }
    let mut wait = config.timing.first_retry_delay;
    loop {
        match attempt(config, run, deadline).await {
            DrainOutcome::Failed => {}
            outcome => return outcome,
        }
        if timeout_at(deadline, sleep(wait)).await.is_err() {
            return DrainOutcome::Failed;
        }
        wait = (wait * 2).min(config.timing.max_retry_delay);
    }
}

async fn attempt(config: &WorkerConfig, run: &Run, deadline: Instant) -> DrainOutcome {
    let command = match process::command(config, "drain", &run.dir) {
        Ok(command) => command,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "failed to start draining the spool");
            return DrainOutcome::Failed;
        }
    };
    let mut child = match Command::from(command).stdin(Stdio::null()).kill_on_drop(true).spawn() {
        Ok(child) => child,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "failed to start draining the spool");
            return DrainOutcome::Failed;
        }
    };
    match ended_in_time(&mut child, config, run, deadline).await {
        Some(Ok(status)) if status.success() => DrainOutcome::Drained,
        Some(Ok(status)) => {
            tracing::warn!(run = %run.id, %status, "draining the spool failed");
            if status.code() == Some(exit::RUN_IS_REFUSED) {
                DrainOutcome::Refused
            } else {
                DrainOutcome::Failed
            }
        }
        Some(Err(error)) => {
            tracing::error!(run = %run.id, %error, "failed to wait for draining the spool");
            DrainOutcome::Failed
        }
        None => {
            tracing::warn!(run = %run.id, "draining the spool took too long");
            // The child is not reaped yet, so the id is still its own.
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = child.wait().await;
            DrainOutcome::Failed
        }
    }
}

/// Waits for the end of a drain; `None` means that it reached the time limit. The limit begins again with each write to the
/// spool, because a drain records every batch that was accepted.
async fn ended_in_time(
    child: &mut Child,
    config: &WorkerConfig,
    run: &Run,
    mut deadline: Instant,
) -> Option<io::Result<ExitStatus>> {
    loop {
        if let Ok(ended) = timeout_at(deadline, child.wait()).await {
            return Some(ended);
        }
        let left = config.timing.drain_timeout.saturating_sub(since_last_write(run));
        if left.is_zero() {
            return None;
        }
        deadline = Instant::now() + left;
    }
}

/// How long ago the spool was written.
fn since_last_write(run: &Run) -> Duration {
    let spool = run.dir.spool();
    // SQLite appends to the log, and copies it to the file later.
    let files = [spool.with_extension("db-wal"), spool];
    let written = files.iter().filter_map(|file| fs::symlink_metadata(file).ok()?.modified().ok()).max();
    // After a step of the clock the age is unknown, and the limit is not extended.
    written.and_then(|at| at.elapsed().ok()).unwrap_or(Duration::MAX)
}
