//! `handoff_document`: what the next session needs to know (S0 8.3 `RecordHandoffDocumentCommand`).

use pilothouse_domain::session::AgentFact;
use pilothouse_wire::event::HandoffDocument;

use super::Mapping;

/// The document itself stands in the journal entry.
pub fn map(_: &HandoffDocument) -> Mapping {
    Mapping::to(AgentFact::HandoffWritten)
}
