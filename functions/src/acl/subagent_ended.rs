//! `subagent_ended`: a subagent completed or failed (S0 8.6).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::ActivityItemType;
use pilothouse_domain::{SubAgentId, Timestamp};

use super::Mapping;

pub fn map(subagent: &SubAgentId, failure: Option<&str>, now: Timestamp) -> Mapping {
    let summary = failure.map_or("A subagent is done".to_owned(), |why| format!("A subagent failed: {why}"));
    let fact = AgentFact::SubAgentEnded { subagent: subagent.clone(), failure: failure.map(str::to_owned) };
    Mapping::to(fact).line(ActivityItemType::SubAgentComplete, &summary, now).about(Some(subagent.clone()))
}
