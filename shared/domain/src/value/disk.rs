//! Disks that can be full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The disk that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Disk {
    /// The server's disk: its database and the spools of sidecars on the same machine.
    Server,
    /// The disk of the machine that runs the session's sidecar.
    Worker,
}
