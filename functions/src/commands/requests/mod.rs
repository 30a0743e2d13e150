//! Commands that answer an agent's questions and decide on its plans (S0 8.9, decision 26).

pub mod answer;
pub mod approve_plan;
pub mod reject_plan;

use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_domain::ToolCallId;
use schemars::JsonSchema;

/// A request of the agent.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedRequest {
    /// The id of the request in the session's `pendingRequests`. The response is 409 `request-over` when it is not open.
    pub request_id: ToolCallId,
}
