//! A process that was started, with everything that it started.

use std::io::{self, PipeWriter};
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

/// A process and its group. Dropped, all of it is killed.
#[derive(Debug)]
pub struct Group {
    child: Child,
    id: Option<Pid>,
    /// Held, and never written to: its end tells the guard that the sidecar is gone.
    _leash: Option<PipeWriter>,
}

impl Group {
    pub(super) fn new(child: Child, leash: Option<PipeWriter>) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Self { child, id, _leash: leash }
    }

    /// The id of the group.
    pub const fn id(&self) -> Option<Pid> {
        self.id
    }

    /// Its standard input, once.
    pub const fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, once.
    pub const fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, once.
    pub const fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the program itself has ended. May be cancelled. What it left in the background lives on until the group
    /// is ended or dropped.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Signals everything in it.
    pub fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // Whoever is gone needs no signal.
            let _ = killpg(id, signal);
        }
    }

    /// Asks all of it to end, and kills what has not after `grace`. Nothing of it is left when this returns.
    pub async fn end(mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::SIGTERM);
        let ended = timeout(grace, self.child.wait()).await;
        self.signal(Signal::SIGKILL);
        match ended {
            Ok(ended) => ended,
            Err(_) => self.child.wait().await,
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}
