//! `model_unavailable`: the model of the agent does not answer, and the agent waits.

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;

use super::Mapping;
use super::quota_exceeded::sentence;

/// The session pauses. It resumes at `retry_at`, or when its owner resumes it.
pub fn map(message: Option<&str>, retry_at: Option<Timestamp>) -> Mapping {
    Mapping::to(AgentFact::ModelUnavailable { message: sentence(message), retry_at })
}
