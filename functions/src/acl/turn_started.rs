//! `turn_started`: the agent starts a turn (decision 18).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::{MessageId, TurnId};

use super::Mapping;

/// Idle or Interrupted → Running.
pub fn map(turn: &TurnId, message: Option<MessageId>) -> Mapping {
    Mapping::to(AgentFact::TurnStarted { turn: turn.clone(), message })
}
