//! Questions and plans of an agent: what its owner decides (S0 8.9, ruling 26).

pub mod answer;
pub mod approve_plan;
pub mod reject_plan;

use deserr::Deserr;
use pilothouse_domain::ToolCallId;
use schemars::JsonSchema;

use crate::edge::input::{Violations, parsed};

/// Which request.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedRequest {
    /// The request, from the session's `pendingRequests`; 409 `request-over` when it is not open.
    #[deserr(try_from(String) = parsed -> pilothouse_domain::InvalidId)]
    pub request_id: ToolCallId,
}
