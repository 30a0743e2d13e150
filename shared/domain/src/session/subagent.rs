//! The `SubAgentSession` entity (S0 8.4): a subagent of a session, stored as a separate item. Its messages and tool calls are views
//! of the journal.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::{MeterTotals, UsageReport};
use crate::text::cut;
use crate::value::{ContextWindowSnapshot, UsageByModel};
use crate::{SubAgentId, Timestamp, ToolCallId};

/// Status of a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubAgentStatus {
    /// The subagent is working.
    Running,
    /// The subagent ended normally.
    Completed,
    /// The subagent failed, or its run ended.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubAgentSession {
    pub id: SubAgentId,
    pub model_id: Option<String>,
    /// Tool call of the parent that started the subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// Objective, cut to 2,000 characters.
    pub objective: String,
    pub status: SubAgentStatus,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    #[serde(flatten)]
    pub usage: UsageByModel,
    /// Context window of the subagent, independent of its parent's.
    pub context_window: Option<ContextWindowSnapshot>,
    meters: BTreeMap<String, MeterTotals>,
}

impl SubAgentSession {
    pub fn start(id: SubAgentId, model_id: Option<String>, objective: &str, now: Timestamp) -> Self {
        Self {
            id,
            model_id: model_id.map(|m| cut(&m, 200)),
            tool_call_id: None,
            objective: cut(objective, 2000),
            status: SubAgentStatus::Running,
            started_at: now,
            completed_at: None,
            usage: UsageByModel::default(),
            context_window: None,
            meters: BTreeMap::new(),
        }
    }

    /// Records the tool call that started the subagent, once.
    pub fn started_by(&mut self, call: Option<ToolCallId>) {
        self.tool_call_id = self.tool_call_id.take().or(call);
    }

    /// Ends the subagent. Returns whether it was running.
    pub fn end(&mut self, failed: bool, now: Timestamp) -> bool {
        if self.status != SubAgentStatus::Running {
            return false;
        }
        self.status = if failed { SubAgentStatus::Failed } else { SubAgentStatus::Completed };
        self.completed_at = Some(now);
        true
    }

    /// Counts usage. Returns the increase, which also counts for the parent.
    pub fn record_usage(&mut self, report: &UsageReport) -> MeterTotals {
        let meter = self.meters.entry(format!("{}|{}", report.meter, report.model)).or_default();
        let added = meter.advance(report.cost, report.tokens);
        self.usage.add(&report.model, added.cost, added.tokens);
        if let Some(window) = report.context_window {
            self.context_window = Some(window);
        }
        added
    }
}
