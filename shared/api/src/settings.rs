//! The settings of a server in the API.

use pilothouse_domain::text::AdapterName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the operator configured the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSettings {
    /// The adapter of sessions that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_adapter: Option<AdapterName>,
    /// How many days raw events, activity, logs, notifications and the decision log are kept. Sessions, their messages and their results
    /// are kept without a limit.
    pub retention_days: u16,
    /// Whether a model reviews coherence issues.
    pub reviews_coherence: bool,
}
