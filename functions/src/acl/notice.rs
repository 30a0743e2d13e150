//! `notice`: information from the agent runtime, such as a retry, a fallback or a denied permission.

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::ActivityItemType;

use super::Mapping;

pub fn map(name: &str, summary: &str, now: Timestamp) -> Mapping {
    Mapping::to(AgentFact::Noted).line(ActivityItemType::Notice, summary, now).detail(name)
}
