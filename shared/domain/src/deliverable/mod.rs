//! Deliverables (S4): verifiable pieces of work that an agent sets itself and settles one by one.
//!
//! | file | what it holds |
//! |---|---|
//! | [`status`] | the aggregate `DeliverableStatus`: all deliverables of a working directory |
//! | [`input`] | what the tool is given, and everything that can be wrong with it |
//! | [`transition`] | the state machine, in one place |
//! | [`result`] | what the tool answers |
//! | [`day`] | a calendar day, as the status file has it |

pub mod day;
pub mod input;
pub mod result;
pub mod status;
pub mod transition;

pub use crate::value::DeliverableCounts;
pub use day::Day;
pub use input::{CreateDeliverableInput, DeliverableInput, InvalidDeliverable, SetDeliverableStatusInput};
pub use result::{OperationError, OperationResult};
pub use status::{DeliverableStatus, InvalidStatus, SetStatusError};
pub use transition::InvalidTransition;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DeliverableId;
use crate::value::DeliverableState;

/// A verifiable unit of work with its acceptance criteria (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deliverable {
    /// Its id, such as `DL-001`; unique in its working directory.
    pub id: DeliverableId,
    /// What it is.
    pub description: String,
    /// What must hold for it to be passed; at least one.
    pub acceptance_criteria: Vec<String>,
    /// Where it stands.
    pub status: DeliverableState,
}
