//! Maps records of workers and placements to the input of the placement rules ([`pilothouse_domain::placement`]).

use pilothouse_domain::placement::{ClaimedPlace, CurrentAssignment, RunNeeds, SessionFolders, WorkerOffer};
use pilothouse_store::{Loaded, Placement, PlacementState, WorkerKey, WorkerRecord};

pub(super) fn worker_offer(worker: &WorkerRecord) -> WorkerOffer<'_> {
    WorkerOffer {
        owner: &worker.key.owner,
        name: worker.key.id.as_str(),
        shared: worker.shared,
        labels: &worker.labels,
        workspace: &worker.workspace,
        capacity: worker.capacity,
        assigned: worker.runs.len(),
        draining: worker.draining,
        seen_at: worker.seen_at,
    }
}

pub(super) fn run_needs(placement: &Placement) -> RunNeeds<'_> {
    RunNeeds {
        owner: &placement.owner,
        labels: &placement.request.worker_labels,
        workspace: placement.request.workspace.as_deref(),
    }
}

/// `home` is the worker that has the folders of the session, if it is still registered.
pub(super) fn session_folders(home: Option<&Loaded<WorkerRecord>>) -> SessionFolders<'_> {
    home.map_or(SessionFolders::Nowhere, |home| SessionFolders::On(worker_offer(&home.value)))
}

/// The assignment of a run that is offered to `worker`. `holder` is the other worker that it is assigned to.
pub(super) fn current_assignment<'a>(
    placement: &Placement,
    worker: &WorkerRecord,
    holder: Option<&'a Loaded<WorkerRecord>>,
) -> CurrentAssignment<'a> {
    match &placement.place {
        PlacementState::Waiting => CurrentAssignment::Unassigned,
        PlacementState::Assigned { worker: key, at } if *key == worker.key => CurrentAssignment::SameWorker {
            at: *at,
            reported: worker.reported.contains_key(&placement.request.run_id),
        },
        PlacementState::Assigned { .. } => {
            CurrentAssignment::OtherWorker(holder.map(|holder| worker_offer(&holder.value)))
        }
        PlacementState::Claimed { .. } | PlacementState::Ended { .. } => CurrentAssignment::ClaimedOrOver,
    }
}

/// The place of a run as `worker` sees it, which claims the run.
pub(super) fn claimed_place(placement: &Placement, worker: &WorkerKey) -> ClaimedPlace {
    match &placement.place {
        PlacementState::Assigned { worker: key, .. } if key == worker => ClaimedPlace::Assigned,
        PlacementState::Claimed { worker: key, .. } if key == worker => ClaimedPlace::Claimed,
        PlacementState::Ended { .. } => ClaimedPlace::Over,
        PlacementState::Waiting | PlacementState::Assigned { .. } | PlacementState::Claimed { .. } => {
            ClaimedPlace::Elsewhere
        }
    }
}
