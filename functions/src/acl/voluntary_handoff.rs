//! `voluntary_handoff`: the agent hands over its work (S0 8.3 `RecordVoluntaryHandoffCommand`).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;
use pilothouse_wire::event::HandoffDocument;

use super::{Mapping, handoff_document};

/// Running → `ContextExhausted`, with the document.
pub fn map(reason: &str, document: &HandoffDocument) -> Mapping {
    Mapping::to(AgentFact::HandedOver { reason: cut(reason, 1000) }).and(handoff_document::document(document))
}
