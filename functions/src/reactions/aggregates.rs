//! Reactions to events of aggregates other than sessions: chains, skills, templates.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::{AggregateJournalEntry, DomainEvent};

use super::chains;

/// Whether an event has a reaction.
pub(super) const fn concerns(event: &DomainEvent) -> bool {
    chains::concerns_of_chain(event)
}

/// Reacts to `event`.
pub(super) async fn react(
    app: &App,
    _entry: &AggregateJournalEntry,
    event: &DomainEvent,
) -> Result<(), Problem> {
    chains::react_of_chain(app, event).await
}
