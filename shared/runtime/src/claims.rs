//! Claiming a run before its process starts (ruling 7).

use async_trait::async_trait;
use pilothouse_wire::launch::LaunchRequest;

/// Decides by a conditional write who may start a run.
#[async_trait]
pub trait RunClaims: Send + Sync {
    /// Claims a run for the worker that asks. Asked again by the worker that holds the claim, it answers
    /// [`ClaimOutcome::Claimed`] again: the worker may have been killed before it could act on the first answer.
    /// The run directory keeps that from starting a second process.
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError>;
}

/// The answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The run is the asking worker's to start.
    Claimed,
    /// Another worker starts it.
    HeldByOther,
    /// The run has ended, or is not its session's current run any more.
    RunIsOver,
}

/// The claim could not be decided; nothing is known about it.
#[derive(Debug, thiserror::Error)]
#[error("the claim could not be written")]
pub struct ClaimError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
