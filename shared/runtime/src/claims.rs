//! Claiming a run before its process starts (ruling 7).

use std::fmt;

use async_trait::async_trait;
use pilothouse_wire::launch::{LaunchRequest, RunAccess};

/// Decides by a conditional write who may start a run.
#[async_trait]
pub trait RunClaims: Send + Sync {
    /// Claims a run for the worker that asks. Asked again by the worker that holds the claim, it answers
    /// [`ClaimOutcome::Claimed`] again: the worker may have been killed before it could act on the first answer.
    /// The run directory keeps that from starting a second process.
    ///
    /// Who is given the run is given its keys with it: they are derived where the root secret is (ruling 8).
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError>;
}

/// The answer to a claim.
#[derive(Clone)]
pub enum ClaimOutcome {
    /// The run is the asking worker's to start, with these keys.
    Claimed(Box<RunAccess>),
    /// Another worker starts it.
    HeldByOther,
    /// The run has ended, or is not its session's current run any more.
    RunIsOver,
}

impl fmt::Debug for ClaimOutcome {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claimed(_) => "Claimed",
            Self::HeldByOther => "HeldByOther",
            Self::RunIsOver => "RunIsOver",
        })
    }
}

/// The claim could not be decided; nothing is known about it.
#[derive(Debug, thiserror::Error)]
#[error("the claim could not be written")]
pub struct ClaimError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
