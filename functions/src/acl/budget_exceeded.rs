//! `budget_exceeded`: the agent stops before a model call that could exceed the remaining budget (decision 32).

use pilothouse_domain::session::AgentFact;

use super::Mapping;

/// Maps to the request to stop spending until the cap is raised. An amount that cannot be parsed is left out.
pub fn map(needed_usd: &str, left_usd: &str) -> Mapping {
    Mapping::to(AgentFact::BudgetExceeded { needed: needed_usd.parse().ok(), left: left_usd.parse().ok() })
}
