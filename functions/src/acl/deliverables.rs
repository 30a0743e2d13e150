//! `deliverables`: all deliverables of the working directory (S4). The event itself is their list.

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::DeliverableCounts;
use pilothouse_wire::event::RawDeliverable;

use super::Mapping;

/// How many stand where.
pub fn map(deliverables: &[RawDeliverable]) -> Mapping {
    let counts = DeliverableCounts::of(deliverables.iter().map(|deliverable| deliverable.status));
    Mapping::to(AgentFact::DeliverablesTold(counts))
}
