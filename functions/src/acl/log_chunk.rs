//! `log_chunk`: listed in the log; the session does not change (S0 8.4 `RecordLogChunk`).

use pilothouse_domain::session::AgentFact;
use pilothouse_store::View;

use super::Mapping;

/// No line in the activity stream: the log is a stream of its own.
pub fn map() -> Mapping {
    Mapping::to(AgentFact::Noted).listed(View::Log)
}
