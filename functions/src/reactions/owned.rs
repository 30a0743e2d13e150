//! What follows from the events of aggregates that are no sessions: chains, skills, templates.

use pilothouse_domain::{DomainEvent, OwnedEntry};

use super::chains;
use crate::app::App;
use crate::edge::Problem;

/// Whether something follows from an event.
pub(super) const fn concerns(event: &DomainEvent) -> bool {
    chains::concerns_of_chain(event)
}

/// Does what `event` orders.
pub(super) async fn react(app: &App, _entry: &OwnedEntry, event: &DomainEvent) -> Result<(), Problem> {
    chains::react_of_chain(app, event).await
}
