//! `voluntary_handoff`: the agent hands its work on (S0 8.3 `RecordVoluntaryHandoffCommand`).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;

use super::Mapping;

/// Running → `ContextExhausted`; the document stands in the journal entry.
pub fn map(reason: &str) -> Mapping {
    Mapping::to(AgentFact::HandedOver { reason: cut(reason, 1000) }).and(AgentFact::HandoffWritten)
}
