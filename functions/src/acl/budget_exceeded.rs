//! `budget_exceeded`: the next model call could pass what is left, and the agent holds before it (ruling 32).

use pilothouse_domain::session::AgentFact;

use super::Mapping;

/// Nothing more is spent until the cap is raised. What cannot be read as money is left out of the sentence to the owner.
pub fn map(needed_usd: &str) -> Mapping {
    Mapping::to(AgentFact::BudgetExceeded { needed: needed_usd.parse().ok() })
}
