//! `reload_config_ack`: the sidecar runs with the new configuration (S0 8.3).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Reload, ack)
}
