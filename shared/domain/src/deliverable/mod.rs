//! Deliverables (S4): verifiable goals that an agent sets itself and settles one by one.
//!
//! | module | contents |
//! |---|---|
//! | [`status`] | the aggregate `DeliverableStatus`: all deliverables of a working directory |
//! | [`input`] | input of the `deliverable` tool and its validation |
//! | [`transition`] | the transition table |
//! | [`result`] | results of the tool |
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

/// A verifiable goal with its acceptance criteria (S4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deliverable {
    /// Id, such as `DL-001`; unique in its working directory.
    pub id: DeliverableId,
    pub description: String,
    /// Conditions for the deliverable to be passed; at least one.
    pub acceptance_criteria: Vec<String>,
    pub status: DeliverableState,
}
