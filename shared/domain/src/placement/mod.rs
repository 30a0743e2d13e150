//! Placement: the rules for assigning runs to workers, which are machines of owners.
//!
//! A worker runs the sessions of its owner; a shared worker runs those of all owners. Labels of a session select workers. A session
//! returns to the worker that has its folders, as long as that worker is registered (decision 23).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::project_agent::{WorkspaceOffer, WorkspaceRequirements};
use crate::{Deadlines, Timestamp, UserId};

/// The label that selects a worker by name (`worker/id` on a session).
const NAME_LABEL: &str = "id";

/// The intervals of heartbeats, in proportion to the silence deadline of runs (decision 13).
#[derive(Debug, Clone, Copy)]
pub struct HeartbeatPolicy {
    /// The interval between heartbeats: 15 s.
    pub heartbeat: Duration,
    /// The time after the last heartbeat at which a worker receives no more runs: 45 s.
    pub alive: Duration,
}

impl HeartbeatPolicy {
    /// Derives the intervals from the deadlines.
    pub fn of(deadlines: &Deadlines) -> Self {
        Self { heartbeat: deadlines.heartbeat_interval(), alive: deadlines.silence_timeout / 2 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerOffer<'a> {
    pub owner: &'a UserId,
    /// Unique for its owner.
    pub name: &'a str,
    /// Whether it serves all owners.
    pub shared: bool,
    pub labels: &'a BTreeMap<String, String>,
    /// The workspace that it offers to agents.
    pub workspace: &'a WorkspaceOffer,
    /// Most concurrent runs.
    pub capacity: u32,
    /// Runs that are assigned to the worker and not over.
    pub assigned: usize,
    /// Whether it is shutting down.
    pub draining: bool,
    pub seen_at: Timestamp,
}

impl WorkerOffer<'_> {
    /// Whether it runs the sessions of `owner`.
    pub fn serves(&self, owner: &UserId) -> bool {
        self.shared || self.owner == owner
    }

    /// Whether it has the labels and the workspace for a run, whatever its load.
    pub fn suits(&self, run: &RunNeeds<'_>) -> bool {
        self.has_labels(run) && run.workspace.is_none_or(|needed| needed.unmet(self.workspace).is_empty())
    }

    /// Like [`Self::suits`], for a session that has its folders on the worker: free disk does not count.
    fn suits_returning(&self, run: &RunNeeds<'_>) -> bool {
        let has_workspace =
            run.workspace.is_none_or(|needed| needed.unmet_except_disk(self.workspace).is_empty());
        self.has_labels(run) && has_workspace
    }

    fn has_labels(&self, run: &RunNeeds<'_>) -> bool {
        run.labels.iter().all(|(name, value)| self.has_label(name, value))
    }

    const fn has_free_capacity(&self) -> bool {
        self.assigned < self.capacity as usize
    }

    /// In thousandths of the capacity.
    fn load(&self) -> usize {
        self.assigned * 1000 / (self.capacity as usize).max(1)
    }

    fn is_same_worker(&self, other: &WorkerOffer<'_>) -> bool {
        self.owner == other.owner && self.name == other.name
    }

    fn has_label(&self, name: &str, value: &str) -> bool {
        match name {
            NAME_LABEL => self.name == value,
            name => self.labels.get(name).is_some_and(|label| label == value),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunNeeds<'a> {
    pub owner: &'a UserId,
    pub labels: &'a BTreeMap<String, String>,
    /// Requirements on the workspace of its agent.
    pub workspace: Option<&'a WorkspaceRequirements>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionFolders<'a> {
    /// The session has not run yet, or the worker that had its folders was removed.
    Nowhere,
    On(WorkerOffer<'a>),
}

impl SessionFolders<'_> {
    /// Whether a worker may run the session: it has the folders, or no worker has.
    pub fn permit(&self, worker: &WorkerOffer<'_>) -> bool {
        match self {
            Self::Nowhere => true,
            Self::On(holder) => holder.is_same_worker(worker),
        }
    }
}

/// The workers that may receive a waiting run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidates {
    /// The worker that has the folders of the session.
    FolderWorker,
    /// The least loaded worker of the owner that fits, otherwise the least loaded shared one.
    LeastLoaded,
    /// None: the worker that has the folders cannot receive the run now.
    None,
}

/// The current assignment of a run that is offered to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurrentAssignment<'a> {
    Unassigned,
    /// The run is assigned to the worker itself, which has not claimed it.
    SameWorker {
        at: Timestamp,
        reported: bool,
    },
    /// The run is assigned to another worker, which has not claimed it. The worker is `None` if it was removed.
    OtherWorker(Option<WorkerOffer<'a>>),
    ClaimedOrOver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reassignment {
    Leave,
    /// Send the order again, in case the assignment was committed but the order was not sent.
    ResendOrder {
        at: Timestamp,
    },
    /// The run may be assigned to the worker, if the worker fits.
    Possible,
}

/// A run that is offered to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedRun<'a> {
    pub assignment: CurrentAssignment<'a>,
    pub needs: RunNeeds<'a>,
    /// Whether it is still the current run of its session.
    pub is_current: bool,
    pub folders: SessionFolders<'a>,
}

/// What happens to a run that is offered to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferDecision {
    /// The run stays where it is.
    Leave,
    /// See [`Reassignment::ResendOrder`].
    ResendOrder {
        /// Time of the assignment.
        at: Timestamp,
    },
    /// The session has moved on: the run never starts.
    Close,
    Assign,
}

/// The place of a run that a worker claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimedPlace {
    /// The run is assigned to the worker, which has not claimed it.
    Assigned,
    /// The worker has claimed the run.
    Claimed,
    /// The run waits, or another worker has it.
    Elsewhere,
    Over,
}

impl ClaimedPlace {
    /// Decides about a claim. `is_current`: whether the run is still the current one of its session.
    pub const fn claim(self, is_current: bool) -> ClaimDecision {
        match (self, is_current) {
            (Self::Assigned, true) => ClaimDecision::Grant,
            (Self::Assigned, false) => ClaimDecision::Close,
            (Self::Claimed, true) => ClaimDecision::AlreadyGranted,
            // The placement stays open until the worker reports the end of the process.
            (Self::Claimed, false) | (Self::Over, _) => ClaimDecision::RunIsOver,
            (Self::Elsewhere, _) => ClaimDecision::HeldByOther,
        }
    }
}

/// The decision about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimDecision {
    Grant,
    /// The worker has claimed the run before.
    AlreadyGranted,
    /// The session has moved on: the run never starts.
    Close,
    RunIsOver,
    HeldByOther,
}

/// The rules at one point in time.
#[derive(Debug, Clone, Copy)]
pub struct PlacementRules {
    pub heartbeats: HeartbeatPolicy,
    pub now: Timestamp,
}

impl PlacementRules {
    pub fn is_alive(&self, worker: &WorkerOffer<'_>) -> bool {
        worker.seen_at + self.heartbeats.alive >= self.now
    }

    /// Whether a worker accepts more runs. Silent and draining workers do not.
    pub fn accepts_runs(&self, worker: &WorkerOffer<'_>) -> bool {
        self.is_alive(worker) && !worker.draining
    }

    /// Whether to offer runs to a worker. A full worker is of interest only while it has not reported all of its runs, because their
    /// orders may have to be sent again.
    pub fn may_offer_to(&self, worker: &WorkerOffer<'_>, has_reported_all: bool) -> bool {
        self.accepts_runs(worker) && (worker.has_free_capacity() || !has_reported_all)
    }

    /// Whether a worker may run a session that has its folders nowhere, and has the labels, workspace and capacity for it.
    pub fn fits(&self, worker: &WorkerOffer<'_>, run: &RunNeeds<'_>) -> bool {
        self.fits_returning(worker, run) && worker.suits(run)
    }

    /// Like [`Self::fits`], for a session that has its folders on the worker.
    pub fn fits_returning(&self, worker: &WorkerOffer<'_>, run: &RunNeeds<'_>) -> bool {
        worker.serves(run.owner)
            && self.accepts_runs(worker)
            && worker.has_free_capacity()
            && worker.suits_returning(run)
    }

    pub fn candidates(&self, folders: &SessionFolders<'_>, run: &RunNeeds<'_>) -> Candidates {
        match folders {
            SessionFolders::Nowhere => Candidates::LeastLoaded,
            SessionFolders::On(worker) if self.fits_returning(worker, run) => Candidates::FolderWorker,
            SessionFolders::On(_) => Candidates::None,
        }
    }

    /// The least loaded of `best` and the workers of `more` that fit. Of equally loaded workers, the first.
    pub fn least_loaded<T>(
        &self,
        best: Option<T>,
        more: impl IntoIterator<Item = T>,
        offer: impl Fn(&T) -> WorkerOffer<'_>,
        run: &RunNeeds<'_>,
    ) -> Option<T> {
        let fitting = more.into_iter().filter(|worker| self.fits(&offer(worker), run));
        best.into_iter().chain(fitting).min_by_key(|worker| offer(worker).load())
    }

    pub fn reassignment(&self, current: &CurrentAssignment<'_>) -> Reassignment {
        match current {
            CurrentAssignment::SameWorker { at, reported: false }
                if *at + self.heartbeats.heartbeat <= self.now =>
            {
                Reassignment::ResendOrder { at: *at }
            }
            CurrentAssignment::OtherWorker(Some(holder)) if self.accepts_runs(holder) => Reassignment::Leave,
            CurrentAssignment::SameWorker { .. } | CurrentAssignment::ClaimedOrOver => Reassignment::Leave,
            CurrentAssignment::Unassigned | CurrentAssignment::OtherWorker(_) => Reassignment::Possible,
        }
    }

    /// Decides what happens to a run that is offered to a worker.
    pub fn offer(&self, worker: &WorkerOffer<'_>, run: &OfferedRun<'_>) -> OfferDecision {
        let fits = || match run.folders {
            SessionFolders::Nowhere => self.fits(worker, &run.needs),
            SessionFolders::On(_) => run.folders.permit(worker) && self.fits_returning(worker, &run.needs),
        };
        match self.reassignment(&run.assignment) {
            Reassignment::ResendOrder { at } => OfferDecision::ResendOrder { at },
            Reassignment::Possible if !run.is_current => OfferDecision::Close,
            Reassignment::Possible if fits() => OfferDecision::Assign,
            Reassignment::Leave | Reassignment::Possible => OfferDecision::Leave,
        }
    }
}
