//! `session_end`: without an error, an output or the end of the turn; with an error, a failure (S0 8.3, decision 19).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;
use pilothouse_wire::event::SessionEnd;

use super::Mapping;

/// Maps to `RecordSessionOutputCommand` or `RecordSessionFailureCommand`, with the agent's own reason.
pub fn map(end: &SessionEnd) -> Mapping {
    Mapping::to(AgentFact::SessionEnded {
        is_error: end.is_error,
        reason: cut(&end.reason, 200),
        message: end.message.as_deref().map(|m| cut(m, 1000)),
        output: end.output.clone(),
    })
}
