//! `quota_exceeded`: the plan that pays for the agent is used up, and the agent waits (S4, decision 39).

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;

use super::Mapping;

/// The session pauses and resumes at the reset time.
pub fn map(message: Option<&str>, reset_at: Option<Timestamp>) -> Mapping {
    Mapping::to(AgentFact::QuotaExceeded { message: sentence(message), reset_at })
}

pub(super) fn sentence(message: Option<&str>) -> Option<String> {
    message.map(|message| cut(message.trim(), 500)).filter(|message| !message.is_empty())
}
