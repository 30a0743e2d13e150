//! How far a session has come in stopping.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a session has come in stopping for a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HoldStage {
    /// The session has to stop.
    Requested,
    /// The sidecar has received the command.
    Acknowledged,
    /// The command was not carried out in time, and the process is being ended.
    Escalated,
    /// The sidecar cannot be reached, so it is unknown whether the agent works.
    Unreachable,
    /// The agent does not act.
    Confirmed,
    /// The brake does not hold the session any more.
    Released,
}

crate::names::named!(HoldStage {
    Requested => "requested",
    Acknowledged => "acknowledged",
    Escalated => "escalated",
    Unreachable => "unreachable",
    Confirmed => "confirmed",
    Released => "released",
});
