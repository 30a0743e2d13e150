//! The rules by which the event of an agent is repaired that does not fit its schema (S2, "Event validation pipeline").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;

/// How an event was repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairRule {
    /// The type was written in another way: `toolResult`, `TOOL-RESULT`.
    TypeName,
    /// A field with `null` counts as absent.
    NullField,
    /// A number or a truth value is taken as text.
    TextField,
    /// A text with a number is taken as the number, and `"true"` and `"false"` as truth values.
    ScalarField,
    /// A single value is taken as a list of it.
    ListField,
}

named!(RepairRule {
    TypeName => "type_name",
    NullField => "null_field",
    TextField => "text_field",
    ScalarField => "scalar_field",
    ListField => "list_field",
});
