//! Says that the run is alive. Not spooled: a heartbeat of the past says nothing.

use std::time::Duration;

use pilothouse_wire::RawEvent;
use pilothouse_wire::gateway::SendEntry;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, error};

use crate::broker::{Broker, BrokerError};
use crate::faults::Faults;
use crate::link::Link;
use crate::spool::Sealer;

/// Sends a heartbeat every `every` until the broker refuses the run for good.
pub async fn run(
    broker: Broker,
    sealer: Sealer,
    every: Duration,
    link: &Link,
    faults: Faults,
) -> BrokerError {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        faults.while_silent(link).await;
        let entry = match sealer.seal(None, None, RawEvent::Heartbeat {}) {
            Ok((id, body)) => SendEntry { deduplication_id: format!("{id}:1"), body },
            Err(e) => {
                error!(error = &e as &dyn std::error::Error, "a heartbeat cannot be sealed");
                continue;
            }
        };
        match broker.send(vec![entry]).await {
            Ok(result) if !result.accepted.is_empty() => link.published(),
            Ok(_) => debug!("a heartbeat was not accepted"),
            Err(e) if e.is_final() => return e,
            Err(e) => debug!(error = &e as &dyn std::error::Error, "a heartbeat was not sent"),
        }
    }
}
