//! Results of the `deliverable` tool (S4 `OperationResult`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Deliverable, DeliverableStatus, InvalidDeliverable, SetStatusError};
use crate::value::DeliverableState;

/// Stable code of a failed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperationError {
    /// The input is invalid; the message names every violation.
    ValidationFailed,
    /// No deliverable has the id.
    NotFound,
    /// The transition table does not allow the change.
    InvalidTransition,
    /// The status file exists but is not valid; it was not changed.
    StatusFileBroken,
    /// The status file cannot be read or written.
    StorageFailed,
}

/// Result of an operation (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    /// Whether it succeeded.
    pub success: bool,
    /// Sentence for the agent.
    pub message: String,
    /// Code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<OperationError>,
}

impl OperationResult {
    pub fn succeeded(message: impl Into<String>) -> Self {
        Self { success: true, message: message.into(), error: None }
    }

    pub fn failed(error: OperationError, message: impl Into<String>) -> Self {
        Self { success: false, message: message.into(), error: Some(error) }
    }

    /// Result of creating deliverables.
    pub fn created(made: &[Deliverable]) -> Self {
        let ids: Vec<_> = made.iter().map(|one| one.id.as_str()).collect();
        Self::succeeded(format!("Created {} deliverables: {}.", ids.len(), ids.join(", ")))
    }

    /// Result of setting a status; `status` has all deliverables after the change.
    pub fn status_set(
        id: &str,
        before: DeliverableState,
        now: DeliverableState,
        status: &DeliverableStatus,
    ) -> Self {
        let what = if before == now { "still" } else { "now" };
        let counts = status.counts();
        Self::succeeded(format!("{} is {what} {}. All deliverables: {counts}.", id.trim(), now.name()))
    }
}

impl From<Vec<InvalidDeliverable>> for OperationResult {
    fn from(wrong: Vec<InvalidDeliverable>) -> Self {
        let all: Vec<_> = wrong.iter().map(ToString::to_string).collect();
        Self::failed(OperationError::ValidationFailed, format!("Nothing was created. {}", all.join("; ")))
    }
}

impl From<SetStatusError> for OperationResult {
    fn from(error: SetStatusError) -> Self {
        let code = match error {
            SetStatusError::NotFound { .. } => OperationError::NotFound,
            SetStatusError::Transition { .. } => OperationError::InvalidTransition,
        };
        Self::failed(code, error.to_string())
    }
}
