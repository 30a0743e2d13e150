//! The writes of placement, under the versions that were loaded.

use pilothouse_domain::Timestamp;
use pilothouse_store::{Commit, Loaded, Placement, PlacementState, StoreError, WorkerKey, WorkerRecord};
use pilothouse_wire::launch::LaunchRequest;

/// An order to launch a run, for the worker that the run is assigned to.
#[derive(Debug, Clone)]
pub(super) struct LaunchOrder {
    pub(super) worker: WorkerKey,
    pub(super) request: LaunchRequest,
    /// Time of the assignment.
    pub(super) at: Timestamp,
}

/// The outcome of an attempt to assign a run.
#[derive(Debug, Clone)]
pub(super) enum AssignmentOutcome {
    Unchanged,
    /// No worker is available; the run waits.
    Queued,
    Assigned(LaunchOrder),
    /// The run was assigned before, and its order may not have been sent.
    OrderPending(LaunchOrder),
}

/// Assigns a run to a worker, possibly taking it from a worker that vanished.
pub(super) fn assign(
    mut placement: Loaded<Placement>,
    mut to: Loaded<WorkerRecord>,
    from: Option<Loaded<WorkerRecord>>,
    at: Timestamp,
) -> Result<(Commit, LaunchOrder), StoreError> {
    let run = placement.value.request.run_id;
    let mut commit = Commit::new();
    if let Some(mut from) = from {
        from.value.runs.remove(&run);
        commit.worker(&from)?;
    }
    to.value.runs.insert(run);
    placement.value.place = PlacementState::Assigned { worker: to.value.key.clone(), at };
    commit.worker(&to)?;
    commit.placement(&placement)?;
    Ok((commit, LaunchOrder { worker: to.value.key, request: placement.value.request, at }))
}

/// Closes the placement of a run that will never start or has ended. Returns `None` if it is closed.
pub(super) fn close(
    mut placement: Loaded<Placement>,
    holder: Option<Loaded<WorkerRecord>>,
    at: Timestamp,
) -> Result<Option<Commit>, StoreError> {
    let run = placement.value.request.run_id;
    let worker = match placement.value.place {
        PlacementState::Claimed { worker, .. } => Some(worker),
        PlacementState::Waiting | PlacementState::Assigned { .. } => None,
        PlacementState::Ended { .. } => return Ok(None),
    };
    placement.value.place = PlacementState::Ended { worker, at };
    let mut commit = Commit::new();
    commit.placement(&placement)?;
    if let Some(mut holder) = holder
        && holder.value.runs.remove(&run)
    {
        holder.value.reported.remove(&run);
        commit.worker(&holder)?;
    }
    Ok(Some(commit))
}
