//! `ExitPlanMode`: the agent presents its plan (S0 8.3 `RecordPlanPendingApprovalCommand`).

use pilothouse_domain::ToolCallId;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::{PlanContent, cut};
use serde_json::Value;

/// Reads the document from `plan` and truncates it to its limit. Some runtimes omit it.
pub(super) fn fact(call: &ToolCallId, input: &Value) -> AgentFact {
    let content = input
        .get("plan")
        .and_then(Value::as_str)
        .and_then(|s| PlanContent::parse(cut(s, PlanContent::MAX)).ok());
    AgentFact::PlanShown { request: call.clone(), content, timeout: None }
}
