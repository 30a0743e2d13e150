//! The activity stream: one skimmable line for everything that happens (S0 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::cut;
use crate::{SubAgentId, Timestamp};

/// What kind of thing happened (S0 8.5). `Notice` is added for what only Pilothouse knows: lost or quarantined
/// events, activity after a stop, a process that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names say it
pub enum ActivityItemType {
    Message,
    ToolCallStart,
    ToolCallEnd,
    SubAgentSpawn,
    SubAgentComplete,
    PlanModeEnter,
    PlanModeExit,
    UserQuestion,
    UserAnswer,
    TodoUpdate,
    StatusChange,
    MetricsUpdate,
    SkillEnabled,
    HandoffInitiated,
    Notice,
}

/// One line of the activity stream (S0 8.5). Its id is its place: the journal's sequence and its position there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityItem {
    /// What kind of thing happened.
    #[serde(rename = "type")]
    pub kind: ActivityItemType,
    /// One line of 1 to 200 characters.
    pub summary: String,
    /// More of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The tool, for starts and ends of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The subagent that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
    /// When the control plane took it in (ruling 38).
    pub timestamp: Timestamp,
}

impl ActivityItem {
    /// The longest summary in characters (S0 8.5).
    pub const MAX_SUMMARY: usize = 200;
    /// The longest detail in characters; the whole stands in the journal entry or its blob.
    pub const MAX_DETAIL: usize = 4000;

    /// An item whose summary is one line within its limits.
    pub fn new(kind: ActivityItemType, summary: &str, timestamp: Timestamp) -> Self {
        let line: String = summary.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = if line.is_empty() { format!("{kind:?}") } else { cut(&line, Self::MAX_SUMMARY) };
        Self { kind, summary: line, detail: None, tool_name: None, sub_agent_id: None, timestamp }
    }

    /// The item with more detail, cut to its limit.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.detail = Some(cut(detail, Self::MAX_DETAIL)).filter(|d| !d.is_empty());
        self
    }

    /// The item with its tool.
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        self.tool_name = Some(cut(tool, 200));
        self
    }

    /// The item with its subagent.
    #[must_use]
    pub fn with_subagent(mut self, subagent: Option<SubAgentId>) -> Self {
        self.sub_agent_id = subagent;
        self
    }
}
