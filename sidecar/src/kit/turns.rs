//! Turns: their ids, and why the driver of an agent stops.

use pilothouse_domain::{InvalidId, TurnId};

use crate::adapter::AdapterError;
use crate::spool::SpoolError;

/// `prefix` is unique within the session.
pub(crate) fn turn_id(prefix: &str, number: u64) -> Result<TurnId, InvalidId> {
    TurnId::parse(format!("{prefix}.{number}"))
}

/// Why a driver stops.
#[derive(Debug)]
pub(crate) enum DriverExit {
    /// The conversation has ended, or the agent must stop.
    Over,
    Failed(AdapterError),
}

impl DriverExit {
    pub(crate) fn agent(why: impl Into<String>) -> Self {
        Self::Failed(AdapterError::Agent(why.into()))
    }

    pub(crate) fn outcome(self) -> Result<(), AdapterError> {
        match self {
            Self::Over => Ok(()),
            Self::Failed(e) => Err(e),
        }
    }
}

impl From<SpoolError> for DriverExit {
    fn from(e: SpoolError) -> Self {
        Self::Failed(e.into())
    }
}

impl From<AdapterError> for DriverExit {
    fn from(e: AdapterError) -> Self {
        Self::Failed(e)
    }
}

impl From<std::io::Error> for DriverExit {
    fn from(e: std::io::Error) -> Self {
        Self::Failed(state_error(&e))
    }
}

/// The adapter cannot save the state of its agent.
pub(crate) fn state_error(e: &std::io::Error) -> AdapterError {
    AdapterError::Agent(format!("failed to save its state: {e}"))
}
