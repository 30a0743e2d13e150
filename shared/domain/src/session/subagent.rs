//! A subagent of a session (S0 8.4 `SubAgentSession`). Each is an item of its own; its messages and tool calls are
//! views of the journal.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::{MeterTotals, UsageReport};
use crate::text::cut;
use crate::value::{ContextWindowSnapshot, TokenUsage};
use crate::{SubAgentId, Timestamp, Usd};

/// Where a subagent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubAgentStatus {
    /// At work.
    Running,
    /// Ended.
    Completed,
    /// Ended by an error, or with its run.
    Failed,
}

/// A subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubAgentSession {
    /// Its id.
    pub id: SubAgentId,
    /// Its model, when known.
    pub model_id: Option<String>,
    /// What it is to do; cut to 2,000 characters.
    pub objective: String,
    /// Where it stands.
    pub status: SubAgentStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// What it spent.
    pub total_cost_usd: Usd,
    /// Its tokens by model.
    pub token_usage_by_model: BTreeMap<String, TokenUsage>,
    /// Its own context window, independent of the parent's.
    pub context_window: Option<ContextWindowSnapshot>,
    meters: BTreeMap<String, MeterTotals>,
}

impl SubAgentSession {
    /// A subagent that begins.
    pub fn start(id: SubAgentId, model_id: Option<String>, objective: &str, now: Timestamp) -> Self {
        Self {
            id,
            model_id: model_id.map(|m| cut(&m, 200)),
            objective: cut(objective, 2000),
            status: SubAgentStatus::Running,
            started_at: now,
            completed_at: None,
            total_cost_usd: Usd::ZERO,
            token_usage_by_model: BTreeMap::new(),
            context_window: None,
            meters: BTreeMap::new(),
        }
    }

    /// Ends it; a second end changes nothing (its status is terminal).
    pub fn end(&mut self, failed: bool, now: Timestamp) -> bool {
        if self.status != SubAgentStatus::Running {
            return false;
        }
        self.status = if failed { SubAgentStatus::Failed } else { SubAgentStatus::Completed };
        self.completed_at = Some(now);
        true
    }

    /// Counts its usage and returns what it adds to the parent's.
    pub fn record_usage(&mut self, report: &UsageReport) -> MeterTotals {
        let meter = self.meters.entry(format!("{}|{}", report.meter, report.model)).or_default();
        let added = meter.advance(report.cost, report.tokens);
        self.total_cost_usd += added.cost;
        let sum = self.token_usage_by_model.entry(report.model.clone()).or_default();
        *sum = sum.plus(added.tokens);
        if let Some(window) = report.context_window {
            self.context_window = Some(window);
        }
        added
    }
}
