//! `validation_ack`: the sidecar received the request to check the criteria (decision 36).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

/// `received` starts the wait for `validation_result`.
pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Validate, ack)
}
