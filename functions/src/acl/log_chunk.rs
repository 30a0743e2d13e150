//! `log_chunk`: an entry of the log that does not change the session (S0 8.4 `RecordLogChunk`).

use pilothouse_domain::session::AgentFact;
use pilothouse_store::JournalView;

use super::Mapping;

/// Adds no line to the activity stream, because the log is a separate stream. An empty piece is not part of the log (S0 8.5
/// `SessionLogChunk`).
pub fn map(content: &str) -> Mapping {
    let mapping = Mapping::to(AgentFact::Noted);
    if content.is_empty() { mapping } else { mapping.listed(JournalView::Log) }
}
