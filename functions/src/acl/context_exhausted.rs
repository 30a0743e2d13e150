//! `context_exhausted`: the session accepts no more input (S0 8.3 `RecordContextExhaustedCommand`).

use pilothouse_domain::session::AgentFact;

use super::Mapping;

/// Running → `ContextExhausted`.
pub fn map() -> Mapping {
    Mapping::to(AgentFact::ContextExhausted)
}
