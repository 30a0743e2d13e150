//! Publishing what a sidecar left in its spool.

use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::WorkerConfig;
use crate::lock::Look;
use crate::registry::Run;
use crate::{exit, process};

/// Runs `drain` for a run whose process is gone, again when it fails, within the time limit. Returns whether everything
/// was published.
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
    let mut wait = config.timing.first_retry;
    loop {
        match attempt(config, run, deadline).await {
            Attempt::Drained => return true,
            Attempt::GivenUp => return false,
            Attempt::Failed => {}
        }
        // Whatever ended it, what is unsent is still there.
        if timeout_at(deadline, sleep(wait)).await.is_err() {
            tracing::warn!(run = %run.id, "draining the spool failed for too long");
            return false;
        }
        wait = (wait * 2).min(config.timing.longest_retry);
    }
}

/// How one `drain` ended.
enum Attempt {
    /// Everything was published.
    Drained,
    /// It failed, and the next one may not.
    Failed,
    /// It was refused for good, or the time is over.
    GivenUp,
}

async fn attempt(config: &WorkerConfig, run: &Run, deadline: Instant) -> Attempt {
    let command = match process::command(config, "drain", &run.dir) {
        Ok(command) => command,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "the spool cannot be drained");
            return Attempt::Failed;
        }
    };
    let mut child = match Command::from(command).stdin(Stdio::null()).kill_on_drop(true).spawn() {
        Ok(child) => child,
        Err(error) => {
            tracing::error!(run = %run.id, %error, "the spool cannot be drained");
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
            tracing::error!(run = %run.id, %error, "the end of draining the spool was missed");
            Attempt::Failed
        }
        Err(_) => {
            tracing::warn!(run = %run.id, "draining the spool took too long");
            // Not waited for yet, so the id is still its own.
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = child.wait().await;
            Attempt::GivenUp
        }
    }
}
