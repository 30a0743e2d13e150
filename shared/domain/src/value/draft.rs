use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a text that the agent is writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DraftKind {
    Text,
    Thinking,
}
