//! `subagent_started`: a subagent starts its work (S0 8.6 `SubAgentSessionStartedEvent`).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::ActivityItemType;
use pilothouse_domain::{SubAgentId, Timestamp, ToolCallId};

use super::{Mapping, first_line};

pub fn map(
    subagent: &SubAgentId,
    model: Option<&str>,
    objective: &str,
    call: Option<&ToolCallId>,
    now: Timestamp,
) -> Mapping {
    let fact = AgentFact::SubAgentStarted {
        subagent: subagent.clone(),
        model: model.map(str::to_owned),
        objective: objective.to_owned(),
        call: call.cloned(),
    };
    Mapping::to(fact)
        .line(ActivityItemType::SubAgentSpawn, &format!("A subagent began: {}", first_line(objective)), now)
        .detail(objective)
        .about(Some(subagent.clone()))
}
