//! What goes over the API: inputs and answers, apart from the aggregates (ruling 4: camelCase, money as strings).
//!
//! Answers are made by `From` the domain; inputs are read by [`crate::edge::input`], which names every violation.

pub mod agent;
pub mod chains;
pub mod export;
pub mod messages;
pub mod operations;
pub mod pool;
pub mod records;
pub mod sessions;
pub mod skills;
pub mod stream;
pub mod telling;
pub mod templates;
pub mod workers;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of a list (ruling 5).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Goes on from here; absent at the end. A page may be short, even empty, although there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An RFC 9457 problem document, as every refusal is answered (ruling 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDocument {
    /// A URI of the kind of problem: `https://pilothouse.dev/problems/{code}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short title.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// A sentence that says what to do.
    pub detail: String,
    /// Everything that is wrong with the input, when it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The session that goes on with the work, where that is why (`continued`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<pilothouse_domain::AgentSessionId>,
}

/// One thing that is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The field, as a path: `budgetCapUsd`, `autoContinueConfig.validationCriteria[0].type`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}
