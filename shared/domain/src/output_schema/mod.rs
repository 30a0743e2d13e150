//! The JSON Schema that the result of an agent has to match (S2 `AgentBrief.outputSchema`; decision 83).
//!
//! The vocabulary is the part of draft 2020-12 that the control plane enforces. Other keywords are violations, except annotations.
//!
//! | module | contents |
//! |---|---|
//! | `read` | reads a schema and names what is wrong with it |
//! | `check` | compares a result with a schema |

mod check;
mod read;

use std::collections::BTreeSet;

use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON Schema, as the owner wrote it. It is refused if it has rules that cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OutputSchema(Value);

/// One violation of a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaViolation {
    #[error("must have at most {max_kib} KiB")]
    TooLarge { max_kib: usize },
    #[error("must be a JSON Schema: an object")]
    NotAnObject,
    #[error("must be a schema: an object, `true` or `false`")]
    NotASchema,
    #[error("cannot be enforced; remove the keyword")]
    Unsupported,
    #[error("must be {0}")]
    Expected(&'static str),
    #[error("is not a regular expression that can be used: {0}")]
    Pattern(String),
    #[error("must name a schema in `$defs`, like `#/$defs/item`")]
    UnknownReference,
    #[error("must not lead back to itself")]
    Recursive,
    #[error("is nested too deeply; {max} levels are allowed")]
    TooDeep { max: usize },
    #[error("has too many parts after its references are resolved; {max} are allowed")]
    TooManyParts { max: usize },
}

/// One violation of the schema by a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputViolation {
    /// JSON Pointer to the value; empty for the whole result.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl OutputViolation {
    /// The path, for people and agents.
    pub fn place(&self) -> &str {
        if self.path.is_empty() { "the result" } else { &self.path }
    }
}

impl OutputSchema {
    /// Most bytes of a schema as JSON.
    pub const MAX_BYTES: usize = 16 * 1024;
    pub const MAX_DEPTH: usize = 32;
    /// Most schemas in a schema after its references are resolved. Limits the time of a check.
    pub const MAX_PARTS: usize = 2000;
    /// Most reported violations of a result.
    pub const MAX_NAMED: usize = 20;

    pub const fn new(schema: Value) -> Self {
        Self(schema)
    }

    pub const fn as_value(&self) -> &Value {
        &self.0
    }

    /// Names everything that keeps the schema from being enforced, with its path below the schema.
    pub fn violations(&self) -> Vec<(String, SchemaViolation)> {
        read::read(&self.0).1
    }

    /// Compares a result with the schema. Reports at most [`Self::MAX_NAMED`] violations.
    pub fn check(&self, result: Option<&Value>) -> Vec<OutputViolation> {
        let Some(result) = result else {
            let message = "is missing; submit the result that the schema describes".to_owned();
            return vec![OutputViolation { path: String::new(), message }];
        };
        let (schema, _) = read::read(&self.0);
        check::check(&schema, result, Self::MAX_NAMED)
    }
}

/// A schema with its references resolved.
#[derive(Debug)]
enum Schema {
    Any,
    Never,
    Rules(Box<Rules>),
}

/// All rules have to hold.
#[derive(Debug, Default)]
struct Rules {
    types: Vec<JsonType>,
    /// Of `enum` and `const`.
    values: Vec<Allowed>,
    all_of: Vec<Schema>,
    any_of: Option<Vec<Schema>>,
    one_of: Option<Vec<Schema>>,
    not: Option<Schema>,
    properties: Vec<(String, Schema)>,
    additional_properties: Option<Schema>,
    required: Vec<String>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    items: Option<Schema>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<Regex>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    exclusive_minimum: Option<f64>,
    exclusive_maximum: Option<f64>,
}

/// The values of an `enum`, or the one of a `const`.
#[derive(Debug)]
struct Allowed {
    /// Compared in their canonical form.
    texts: BTreeSet<String>,
    shown: String,
}

impl Allowed {
    fn new(values: &[Value]) -> Self {
        let shown: Vec<_> = values.iter().map(Value::to_string).collect();
        Self { texts: values.iter().map(check::canonical).collect(), shown: shown.join(", ") }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl JsonType {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Null, "null"),
        (Self::Boolean, "boolean"),
        (Self::Integer, "integer"),
        (Self::Number, "number"),
        (Self::String, "string"),
        (Self::Array, "array"),
        (Self::Object, "object"),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn is_of(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
            }
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

#[cfg(test)]
mod tests;
