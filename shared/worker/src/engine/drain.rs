//! Publishes what a sidecar left in its spool.

use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout_at};

use super::config::WorkerConfig;
use super::registry::Run;
use super::run_lock::LockState;
use super::{exit, process};

/// Runs `pilothouse-sidecar drain` after the sidecar ended, and retries within the time limit. Returns whether everything
/// was published.
pub(crate) async fn drain(config: &WorkerConfig, run: &Run) -> bool {
    if !run.dir.spool().exists() {
        return true; // the sidecar never published anything
    }
    let deadline = Instant::now() + config.timing.drain_timeout;
    // A `drain` of the earlier server may still hold the lock.
    while matches!(run.inspect(), Ok(LockState::Held(_))) {
        if timeout_at(deadline, sleep(config.timing.poll_interval)).await.is_err() {
            return false;
        }
    }
    let mut wait = config.timing.first_retry_delay;
    loop {
        match attempt(config, run, deadline).await {
            Attempt::Drained => return true,
            Attempt::GivenUp => return false,
            Attempt::Failed => {}
        }
        // The spool keeps unpublished events whatever ended the attempt.
        if timeout_at(deadline, sleep(wait)).await.is_err() {
            tracing::warn!(run = %run.id, "gave up draining the spool");
            return false;
        }
        wait = (wait * 2).min(config.timing.max_retry_delay);
    }
}

enum Attempt {
    Drained,
    /// A retry may succeed.
    Failed,
    /// The broker refused the run, or the time limit was reached.
    GivenUp,
}

async fn attempt(config: &WorkerConfig, run: &Run, deadline: Instant) -> Attempt {
    let command = match process::command(config, "drain", &run.dir) {
        Ok(command) => command,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "failed to start draining the spool");
            return Attempt::Failed;
        }
    };
    let mut child = match Command::from(command).stdin(Stdio::null()).kill_on_drop(true).spawn() {
        Ok(child) => child,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "failed to start draining the spool");
            return Attempt::Failed;
        }
    };
    match timeout_at(deadline, child.wait()).await {
        Ok(Ok(status)) if status.success() => Attempt::Drained,
        Ok(Ok(status)) => {
            tracing::warn!(run = %run.id, %status, "draining the spool failed");
            if status.code() == Some(exit::RUN_IS_REFUSED) { Attempt::GivenUp } else { Attempt::Failed }
        }
        Ok(Err(error)) => {
            tracing::error!(run = %run.id, %error, "failed to wait for draining the spool");
            Attempt::Failed
        }
        Err(_) => {
            tracing::warn!(run = %run.id, "draining the spool took too long");
            // The child is not reaped yet, so the id is still its own.
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = child.wait().await;
            Attempt::GivenUp
        }
    }
}
