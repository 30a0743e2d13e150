//! `notice`: the agent speaks of itself: a retry, a fallback, a denied permission.

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::ActivityItemType;

use super::Mapping;

/// A line in the activity stream.
pub fn map(name: &str, summary: &str, now: Timestamp) -> Mapping {
    Mapping::to(AgentFact::Noted).line(ActivityItemType::Notice, summary, now).detail(name)
}
