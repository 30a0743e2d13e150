//! `deliverables`: all deliverables of the working directory (S4). The journal entry keeps the list.

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::DeliverableCounts;
use pilothouse_wire::event::RawDeliverable;

use super::Mapping;

pub fn map(deliverables: &[RawDeliverable]) -> Mapping {
    let counts = DeliverableCounts::of(deliverables.iter().map(|deliverable| deliverable.status));
    Mapping::to(AgentFact::DeliverablesReported(counts))
}
