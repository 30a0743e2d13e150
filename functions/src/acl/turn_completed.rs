//! `turn_completed`: the turn and its subagents ended (decision 18).

use pilothouse_domain::TurnId;
use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::SessionOutcome;

use super::Mapping;

/// Running → Idle, with or without output to review. An error fails the session (decision 39).
pub fn map(turn: &TurnId, output: Option<&SessionOutput>, outcome: SessionOutcome) -> Mapping {
    Mapping::to(AgentFact::TurnCompleted { turn: turn.clone(), output: output.cloned(), outcome })
}
