//! `sidecar_ready`: the run is up and reports the capabilities of its adapter. The agent can begin.

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{ActivityItemType, Capabilities};

use super::Mapping;

/// Queued → Running, or the end of hibernation.
pub fn map(adapter: &str, version: &str, capabilities: Capabilities, now: Timestamp) -> Mapping {
    Mapping::to(AgentFact::SidecarReady(capabilities)).line(
        ActivityItemType::Notice,
        &format!("The sidecar is ready: adapter {adapter}, version {version}"),
        now,
    )
}
