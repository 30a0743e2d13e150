//! `turn_completed`: the turn and its subagents are over (ruling 18).

use pilothouse_domain::TurnId;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::SessionOutput;

use super::Mapping;

/// Running → Idle, with output to review or without.
pub fn map(turn: &TurnId, output: Option<&SessionOutput>) -> Mapping {
    Mapping::to(AgentFact::TurnCompleted { turn: turn.clone(), output: output.cloned() })
}
