//! `command_refused`: the sidecar refuses a command. The request behind it is resolved.

use pilothouse_domain::CommandId;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;

use super::Mapping;

/// Truncates the code and the message.
pub fn map(command: CommandId, code: &str, message: &str) -> Mapping {
    Mapping::to(AgentFact::CommandRefused { command, code: cut(code, 50), message: cut(message, 500) })
}
