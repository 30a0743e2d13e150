//! `context_nearing_limit`: a warning that does not change the status (S0 8.3 `RecordContextNearingLimitCommand`).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;

use super::Mapping;

pub fn map(usage_percent: &str) -> Mapping {
    Mapping::to(AgentFact::ContextNearingLimit { usage_percent: cut(usage_percent, 20) })
}
