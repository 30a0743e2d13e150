//! The activity stream: one short line for everything that happens (S0 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::cut;
use crate::{SubAgentId, Timestamp};

/// Kind of an activity line (S0 8.5). `Notice` is an addition for events that only Pilothouse knows: lost or quarantined events,
/// activity after a stop, a process that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

crate::names::named!(ActivityItemType {
    Message => "Message",
    ToolCallStart => "ToolCallStart",
    ToolCallEnd => "ToolCallEnd",
    SubAgentSpawn => "SubAgentSpawn",
    SubAgentComplete => "SubAgentComplete",
    PlanModeEnter => "PlanModeEnter",
    PlanModeExit => "PlanModeExit",
    UserQuestion => "UserQuestion",
    UserAnswer => "UserAnswer",
    TodoUpdate => "TodoUpdate",
    StatusChange => "StatusChange",
    MetricsUpdate => "MetricsUpdate",
    SkillEnabled => "SkillEnabled",
    HandoffInitiated => "HandoffInitiated",
    Notice => "Notice",
});

/// One line of the activity stream (S0 8.5). It is identified by the journal entry's sequence and its index there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityItem {
    #[serde(rename = "type")]
    pub kind: ActivityItemType,
    /// One line of 1 to 200 characters.
    pub summary: String,
    /// More text, if one line is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether `detail` is truncated. The journal entry or its blob has the full text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The tool, for the start and end of a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The subagent that the line concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent_id: Option<SubAgentId>,
    /// When the control plane recorded it (decision 38).
    pub timestamp: Timestamp,
}

impl ActivityItem {
    /// Most characters of a summary (S0 8.5).
    pub const MAX_SUMMARY: usize = 200;
    /// Most characters of a detail. The journal entry or its blob has the full text.
    pub const MAX_DETAIL: usize = 4000;

    /// Creates an item. Joins `summary` into one line and cuts it to its limit.
    pub fn new(kind: ActivityItemType, summary: &str, timestamp: Timestamp) -> Self {
        let line: String = summary.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = if line.is_empty() { kind.to_string() } else { cut(&line, Self::MAX_SUMMARY) };
        Self {
            kind,
            summary: line,
            detail: None,
            truncated: false,
            tool_name: None,
            sub_agent_id: None,
            timestamp,
        }
    }

    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.truncated = detail.chars().count() > Self::MAX_DETAIL;
        self.detail = Some(cut(detail, Self::MAX_DETAIL)).filter(|d| !d.is_empty());
        self
    }

    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        self.tool_name = Some(cut(tool, 200));
        self
    }

    #[must_use]
    pub fn with_subagent(mut self, subagent: Option<SubAgentId>) -> Self {
        self.sub_agent_id = subagent;
        self
    }
}
