//! Publishing what a sidecar left in its spool.

use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::WorkerConfig;
use crate::lock::Look;
use crate::process;
use crate::registry::Run;

/// Runs `drain` for a run whose process is gone, within the time limit. Returns whether everything was published.
pub(crate) async fn drain(config: &WorkerConfig, run: &Run) -> bool {
    if !run.dir.spool().exists() {
        return true; // it never had anything to publish
    }
    let deadline = Instant::now() + config.timing.drain_limit;
    // A `drain` that the server before this one began may still be at it, and hold the lock.
    while matches!(run.look(), Ok(Look::Held(_))) {
        if timeout_at(deadline, sleep(config.timing.poll)).await.is_err() {
            return false;
        }
    }
    let command = match process::command(config, "drain", &run.dir) {
        Ok(command) => command,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "the spool cannot be drained");
            return false;
        }
    };
    let mut child = match Command::from(command).stdin(Stdio::null()).kill_on_drop(true).spawn() {
        Ok(child) => child,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "the spool cannot be drained");
            return false;
        }
    };
    match timeout_at(deadline, child.wait()).await {
        Ok(Ok(status)) => {
            if !status.success() {
                tracing::warn!(run = %run.id, %status, "draining the spool failed");
            }
            status.success()
        }
        Ok(Err(error)) => {
            tracing::error!(run = %run.id, %error, "the end of draining the spool was missed");
            false
        }
        Err(_) => {
            tracing::warn!(run = %run.id, "draining the spool took too long");
            // Not waited for yet, so the id is still its own.
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = child.wait().await;
            false
        }
    }
}
