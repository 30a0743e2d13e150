//! `command_refused`: the sidecar will not carry out a command; what waits for it is resolved.

use pilothouse_domain::CommandId;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;

use super::Mapping;

/// The command, a stable code and a sentence.
pub fn map(command: CommandId, code: &str, message: &str) -> Mapping {
    Mapping::to(AgentFact::CommandRefused { command, code: cut(code, 50), message: cut(message, 500) })
}
