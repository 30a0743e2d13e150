//! A tool call that the escalation engine judges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::allow_list::Listing;
use crate::AgentSessionId;
use crate::effect::{BlastRadius, Confidence, Effect, Effects, Severity};

#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    pub tool: &'a str,
    /// Whether the agent may use the tool at all.
    pub listing: &'a Listing,
    pub session_id: AgentSessionId,
    pub effects: &'a Effects,
    /// Names of the project's patterns that matched the call.
    pub patterns: &'a [String],
    /// Risk that the agent reported. It makes the decision stricter only.
    pub reported: ReportedRisk,
    pub affects_multiple_workstreams: bool,
    pub arguments: &'a Value,
}

impl ToolCall<'_> {
    /// Most characters of a tool's name in a decision about a call.
    pub const MAX_NAME: usize = 200;
}

/// Risk of a call that its agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedRisk {
    pub severity: Option<Severity>,
    pub blast_radius: Option<BlastRadius>,
    pub confidence: Option<Confidence>,
}

impl ReportedRisk {
    pub(super) fn raise(self, effect: Effect) -> Effect {
        Effect {
            severity: effect.severity.max(self.severity.unwrap_or(effect.severity)),
            blast_radius: effect.blast_radius.max(self.blast_radius.unwrap_or(effect.blast_radius)),
            confidence: effect.confidence.min(self.confidence.unwrap_or(effect.confidence)),
            ..effect
        }
    }
}
