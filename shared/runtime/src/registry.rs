//! The runs that the worker has in hand, from the request to the reported end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use pilothouse_domain::{AgentSessionId, RunId};
use tokio::sync::watch;

use crate::lock::{self, Look};
use crate::process::{self, OwnProcess};
use crate::run_dir::RunDir;

/// Where a run stands.
pub(crate) enum Phase {
    /// It is being claimed and prepared; `stop` when it is to end before it begins.
    Preparing { stop: bool },
    /// Its process is a child of this one.
    Child(Arc<OwnProcess>),
    /// Its process, if it lives, was started by an earlier server.
    Adopted,
    /// Its process is gone; the end is being drained and reported.
    Over,
}

/// What became of a signal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// It was sent, or there is nothing left to send it to.
    Done,
    /// The process cannot be told from others yet.
    Unverified,
}

/// A run that the worker has in hand.
pub(crate) struct Run {
    pub(crate) session: AgentSessionId,
    pub(crate) id: RunId,
    pub(crate) dir: RunDir,
    phase: Mutex<Phase>,
}

impl Run {
    pub(crate) fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine, where the sidecar runs in a container.
    pub(crate) fn engine(&self) -> Option<PathBuf> {
        self.dir.engine()
    }

    /// Has a run that is still being prepared end before it begins. Whether it is.
    pub(crate) fn stop_in_preparation(&self) -> bool {
        match &mut *self.phase() {
            Phase::Preparing { stop } => {
                *stop = true;
                true
            }
            _ => false,
        }
    }

    /// Looks at the lock, one look at a time.
    pub(crate) fn look(&self) -> io::Result<Look> {
        let in_container = self.engine().is_some();
        let _one_at_a_time = self.phase();
        lock::look(&self.dir.lock(), in_container)
    }

    /// Signals the processes of the run, if they are verified to be its own: not for runs in containers.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<Signalled> {
        let mut phase = self.phase();
        match &mut *phase {
            Phase::Preparing { stop } => *stop = true,
            Phase::Child(process) => _ = process.signal(signal)?,
            Phase::Adopted => match lock::look(&self.dir.lock(), false)? {
                Look::Held(pid) if process::signal_holder(pid, signal)? => {}
                // A server that was killed as it was about to start the sidecar leaves nothing to signal.
                Look::Untouched if self.dir.close_unstarted()?.is_some() => {}
                Look::Held(_) | Look::Untouched => return Ok(Signalled::Unverified),
                Look::Free => {}
            },
            Phase::Over => {}
        }
        Ok(Signalled::Done)
    }
}

/// What a request for a run meets.
pub(crate) enum Reservation {
    /// Nothing: the run is the caller's to prepare.
    New(Arc<Run>),
    /// Another caller is preparing it.
    Preparing,
    /// It was started.
    Known,
}

/// The runs in hand.
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

    /// Enters a run, unless it is in hand already.
    pub(crate) fn reserve(
        &self,
        session: AgentSessionId,
        id: RunId,
        dir: RunDir,
        phase: Phase,
    ) -> Reservation {
        match self.runs().entry(id) {
            Entry::Occupied(known) => match *known.get().phase() {
                Phase::Preparing { .. } => Reservation::Preparing,
                _ => Reservation::Known,
            },
            Entry::Vacant(place) => {
                let run = Arc::new(Run { session, id, dir, phase: Mutex::new(phase) });
                Reservation::New(Arc::clone(place.insert(run)))
            }
        }
    }

    pub(crate) fn get(&self, id: RunId) -> Option<Arc<Run>> {
        self.runs().get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Run>> {
        self.runs().values().cloned().collect()
    }

    /// Moves a run on.
    pub(crate) fn enter(&self, run: &Run, phase: Phase) {
        *run.phase() = phase;
        self.tell();
    }

    /// Tells those who wait that a run has moved on.
    pub(crate) fn tell(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn remove(&self, id: RunId) {
        self.runs().remove(&id);
        self.tell();
    }

    /// Tells of every change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until a condition holds for the runs in hand.
    pub(crate) async fn until(&self, holds: impl Fn(&[Arc<Run>]) -> bool) {
        let mut changes = self.changes();
        // The sender lives as long as `self`: waiting cannot fail before the condition holds.
        while !holds(&self.all()) && changes.changed().await.is_ok() {}
    }
}
