//! `handoff_document`: the information that the next session needs (S0 8.3 `RecordHandoffDocumentCommand`).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::HandoffDocument as Document;
use pilothouse_wire::event::HandoffDocument;

use super::Mapping;

/// Truncates the document to its limits. The journal entry keeps the original.
pub fn map(sent: &HandoffDocument) -> Mapping {
    Mapping::to(document(sent))
}

pub(super) fn document(sent: &HandoffDocument) -> AgentFact {
    let HandoffDocument { summary, remaining_work, key_decisions } = sent;
    AgentFact::HandoffWritten(Box::new(Document::of_agent(summary, remaining_work, key_decisions.as_deref())))
}
