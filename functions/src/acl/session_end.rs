//! `session_end`: clean → output or the turn's end; error → failure (S0 8.3, ruling 19).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;
use pilothouse_wire::event::SessionEnd;

use super::Mapping;

/// `RecordSessionOutputCommand` or `RecordSessionFailureCommand`, with the agent's own reason.
pub fn map(end: &SessionEnd) -> Mapping {
    Mapping::to(AgentFact::SessionEnded {
        is_error: end.is_error,
        reason: cut(&end.reason, 200),
        message: end.message.as_deref().map(|m| cut(m, 1000)),
        output: end.output.clone(),
    })
}
