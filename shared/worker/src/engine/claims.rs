//! Claims a run before its process starts (decision 7).

use std::fmt;

use async_trait::async_trait;
use pilothouse_runtime::ClaimError;
use pilothouse_wire::launch::{LaunchRequest, RunAccess};

/// Decides by a conditional write which worker may start a run.
#[async_trait]
pub trait RunClaims: Send + Sync {
    /// Claims a run for the calling worker. The worker that holds the claim gets
    /// [`ClaimOutcome::Claimed`] again: it may have been killed before it acted on the first response.
    /// The run directory prevents a second process.
    ///
    /// The outcome contains the keys of the run, which the holder of the root secret derives (decision 8).
    async fn claim(&self, request: &LaunchRequest) -> Result<ClaimOutcome, ClaimError>;
}

#[derive(Clone)]
pub enum ClaimOutcome {
    /// The worker may start the run, with these keys.
    Claimed(Box<RunAccess>),
    HeldByOther,
    /// The run has ended, or is no longer the current run of its session.
    RunIsOver,
}

impl fmt::Debug for ClaimOutcome {
    /// Prints no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claimed(_) => "Claimed",
            Self::HeldByOther => "HeldByOther",
            Self::RunIsOver => "RunIsOver",
        })
    }
}
