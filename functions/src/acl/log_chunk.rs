//! `log_chunk`: an entry of the log that does not change the session (S0 8.4 `RecordLogChunk`).

use pilothouse_domain::session::AgentFact;
use pilothouse_store::JournalView;

use super::Mapping;

/// Adds no line to the activity stream, because the log is a separate stream.
pub fn map() -> Mapping {
    Mapping::to(AgentFact::Noted).listed(JournalView::Log)
}
