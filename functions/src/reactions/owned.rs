//! What follows from the events of aggregates that are no sessions: chains, skills, templates.

use pilothouse_domain::{DomainEvent, OwnedEntry};

use crate::app::App;
use crate::edge::Problem;

/// Whether something follows from an event.
pub(super) const fn concerns(_event: &DomainEvent) -> bool {
    false
}

/// Does what `event` orders.
#[allow(clippy::unused_async)] // what it will do reads and writes
pub(super) async fn react(_app: &App, _entry: &OwnedEntry, _event: &DomainEvent) -> Result<(), Problem> {
    Ok(())
}
