//! `validation_ack`: the sidecar has the order to check the criteria (ruling 36).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

/// `received` starts the wait for `validation_result`.
pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Validate, ack)
}
