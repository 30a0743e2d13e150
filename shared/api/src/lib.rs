//! Request and response types of the HTTP API: camelCase, with money as strings (decision 4).
//!
//! Views are built from aggregates. An input that only one function accepts is declared next to that function. The feature
//! `server` adds the parsing of inputs: [`Violations`](input::Violations) and the conversions of their fields.

#![warn(missing_docs)]

pub mod agent;
pub mod artifacts;
pub mod brakes;
pub mod briefing;
pub mod chains;
pub mod checkpoints;
pub mod coherence;
pub mod console;
mod cursor;
pub mod decisions;
pub mod event_feed;
pub mod export;
pub mod images;
#[cfg(feature = "server")]
pub mod input;
pub mod knowledge;
pub mod messages;
pub mod notifications;
pub mod operations;
pub mod patch;
pub mod pool;
pub mod portfolio;
pub mod project_stream;
pub mod projects;
pub mod records;
pub mod sessions;
pub mod settings;
pub mod skills;
pub mod stream;
pub mod templates;
pub mod trust;
pub mod web_push;
pub mod webhooks;
pub mod workers;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of a list (decision 5).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// The cursor of the next page. Absent on the last page. A page may be short, or even empty, although more items follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An RFC 9457 problem document, the body of every error response (decision 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDocument {
    /// A URI that identifies the kind of problem: `https://pilothouse.dev/problems/{code}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason phrase of the HTTP status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable code for programs.
    pub code: String,
    /// A sentence for people that says what to do.
    pub detail: String,
    /// Every violation of the input, if the input is invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The session that continues the work, if the request was refused because of it (`continued`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<pilothouse_domain::AgentSessionId>,
    /// What became of the decision, if the request was refused because it is over (`decision-over`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<decisions::DecisionOutcome>,
}

/// A violation of the rules for an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The path of the field: `budgetCapUsd`, `autoContinueConfig.validationCriteria[0].type`.
    pub field: String,
    /// The rule that the value violates, as a sentence without its subject.
    pub message: String,
}
