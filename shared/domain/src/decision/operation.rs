//! **The transition table** of decisions that no session guards (decision 81).

use super::{DecisionState, OrphanStage};
use crate::names::named;

/// Where a free decision is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FreeStatus {
    Pending,
    /// Orphaned; the policy was not read yet.
    Orphaned,
    /// Orphaned, in its grace period.
    Grace,
    /// Orphaned; it waits for a person.
    Triage,
    /// Orphaned; another agent took it over.
    Reassigned,
    Resolved,
    AutoResolved,
    Expired,
    Cancelled,
}

named!(FreeStatus {
    Pending => "pending",
    Orphaned => "orphaned",
    Grace => "grace",
    Triage => "triage",
    Reassigned => "reassigned",
    Resolved => "resolved",
    AutoResolved => "auto_resolved",
    Expired => "expired",
    Cancelled => "cancelled",
});

/// What can happen to a free decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FreeOperation {
    /// The policy of the project starts the grace period.
    BeginGrace,
    /// It is left to a person.
    Triage,
    Reassign,
    /// A person decides.
    Resolve,
    /// A policy decides.
    AutoResolve,
    Expire,
    /// What it is about ended in another way.
    Cancel,
}

named!(FreeOperation {
    BeginGrace => "begin grace",
    Triage => "triage",
    Reassign => "reassign",
    Resolve => "resolve",
    AutoResolve => "resolve automatically",
    Expire => "expire",
    Cancel => "cancel",
});

impl FreeStatus {
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Orphaned,
        Self::Grace,
        Self::Triage,
        Self::Reassigned,
        Self::Resolved,
        Self::AutoResolved,
        Self::Expired,
        Self::Cancelled,
    ];

    /// `None` for the states that only decisions of a session have.
    pub(super) const fn of(state: &DecisionState) -> Option<Self> {
        Some(match state {
            DecisionState::Pending => Self::Pending,
            DecisionState::Orphaned { stage: OrphanStage::New {}, .. } => Self::Orphaned,
            DecisionState::Orphaned { stage: OrphanStage::Grace { .. }, .. } => Self::Grace,
            DecisionState::Orphaned { stage: OrphanStage::Triage {}, .. } => Self::Triage,
            DecisionState::Orphaned { stage: OrphanStage::Reassigned { .. }, .. } => Self::Reassigned,
            DecisionState::Resolved { .. } => Self::Resolved,
            DecisionState::AutoResolved { .. } => Self::AutoResolved,
            DecisionState::Expired { .. } => Self::Expired,
            DecisionState::Cancelled { .. } => Self::Cancelled,
            DecisionState::Suspended { .. } | DecisionState::Resolving { .. } => return None,
        })
    }

    /// Whether the decision cannot change any more.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Resolved | Self::AutoResolved | Self::Expired | Self::Cancelled)
    }
}

impl FreeOperation {
    pub const ALL: [Self; 7] = [
        Self::BeginGrace,
        Self::Triage,
        Self::Reassign,
        Self::Resolve,
        Self::AutoResolve,
        Self::Expire,
        Self::Cancel,
    ];

    /// **The transition table.** Returns the status after `self` in status `from`, or `None` if the operation is not valid there.
    pub const fn next(self, from: FreeStatus) -> Option<FreeStatus> {
        use FreeStatus as S;
        let to = match (self, from) {
            (Self::BeginGrace, S::Orphaned) => S::Grace,
            (Self::Triage, S::Grace) => S::Triage,
            (Self::Reassign, S::Grace) => S::Reassigned,
            (Self::Resolve, S::Pending | S::Orphaned | S::Grace | S::Triage | S::Reassigned) => S::Resolved,
            (Self::AutoResolve, S::Pending | S::Grace) => S::AutoResolved,
            (Self::Expire, S::Grace) => S::Expired,
            (Self::Cancel, S::Pending) => S::Cancelled,
            _ => return None,
        };
        Some(to)
    }
}
