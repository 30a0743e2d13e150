//! The active runs of the worker, from the launch request to the reported exit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use pilothouse_domain::{AgentSessionId, RunId};
use tokio::sync::watch;

use super::process::{self, ChildProcess};
use super::run_dir::RunDir;
use super::run_lock::{self, LockState};

pub(crate) enum RunPhase {
    /// It is being claimed and prepared; `stop` cancels it before it starts.
    Preparing { stop: bool },
    /// Its process is a child of this one.
    Child(Arc<ChildProcess>),
    /// Its process, if it lives, was started by an earlier server.
    Adopted,
    /// Its process has ended; the spool is being drained and the exit reported.
    Ended,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SignalOutcome {
    /// It was sent, or the processes have ended.
    Done,
    Unverified,
}

pub(crate) struct Run {
    pub(crate) session: AgentSessionId,
    pub(crate) id: RunId,
    pub(crate) dir: RunDir,
    phase: Mutex<RunPhase>,
}

impl Run {
    pub(crate) fn phase(&self) -> MutexGuard<'_, RunPhase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The container engine, if the sidecar runs in a container.
    pub(crate) fn engine(&self) -> Option<PathBuf> {
        self.dir.engine()
    }

    /// Cancels a run in preparation. Returns whether it was in preparation.
    pub(crate) fn stop_in_preparation(&self) -> bool {
        match &mut *self.phase() {
            RunPhase::Preparing { stop } => {
                *stop = true;
                true
            }
            _ => false,
        }
    }

    /// One caller at a time.
    pub(crate) fn inspect(&self) -> io::Result<LockState> {
        let in_container = self.engine().is_some();
        let _one_at_a_time = self.phase();
        run_lock::inspect(&self.dir.lock(), in_container)
    }

    /// Signals the processes of the run after verifying them. Not for runs in containers.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<SignalOutcome> {
        let mut phase = self.phase();
        match &mut *phase {
            RunPhase::Preparing { stop } => *stop = true,
            RunPhase::Child(process) => _ = process.signal(signal)?,
            RunPhase::Adopted => match run_lock::inspect(&self.dir.lock(), false)? {
                LockState::Held(pid) if process::signal_holder(pid, signal)? => {}
                // A server that was killed before it started the sidecar leaves nothing to signal.
                LockState::NeverHeld if self.dir.close_unstarted()?.is_some() => {}
                LockState::Held(_) | LockState::NeverHeld => return Ok(SignalOutcome::Unverified),
                LockState::Released => {}
            },
            RunPhase::Ended => {}
        }
        Ok(SignalOutcome::Done)
    }
}

pub(crate) enum Reservation {
    New(Arc<Run>),
    /// Another caller prepares the run.
    Preparing,
    /// The run was started before.
    Known,
}

pub(crate) struct Registry {
    runs: Mutex<HashMap<RunId, Arc<Run>>>,
    changed: watch::Sender<()>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { runs: Mutex::default(), changed: watch::Sender::new(()) }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run unless it is active.
    pub(crate) fn reserve(
        &self,
        session: AgentSessionId,
        id: RunId,
        dir: RunDir,
        phase: RunPhase,
    ) -> Reservation {
        match self.runs().entry(id) {
            Entry::Occupied(known) => match *known.get().phase() {
                RunPhase::Preparing { .. } => Reservation::Preparing,
                _ => Reservation::Known,
            },
            Entry::Vacant(entry) => {
                let run = Arc::new(Run { session, id, dir, phase: Mutex::new(phase) });
                Reservation::New(Arc::clone(entry.insert(run)))
            }
        }
    }

    pub(crate) fn get(&self, id: RunId) -> Option<Arc<Run>> {
        self.runs().get(&id).cloned()
    }

    /// Whether another run of the same session has a process.
    pub(crate) fn has_other(&self, run: &Run) -> bool {
        let others =
            self.all().into_iter().filter(|other| other.session == run.session && other.id != run.id);
        others.into_iter().any(|other| matches!(*other.phase(), RunPhase::Child(_) | RunPhase::Adopted))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Run>> {
        self.runs().values().cloned().collect()
    }

    pub(crate) fn set_phase(&self, run: &Run, phase: RunPhase) {
        *run.phase() = phase;
        self.notify_changed();
    }

    pub(crate) fn notify_changed(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn remove(&self, id: RunId) {
        self.runs().remove(&id);
        self.notify_changed();
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(crate) async fn wait_until(&self, holds: impl Fn(&[Arc<Run>]) -> bool) {
        let mut changes = self.changes();
        // The sender lives as long as `self`, so waiting cannot fail.
        while !holds(&self.all()) && changes.changed().await.is_ok() {}
    }
}
