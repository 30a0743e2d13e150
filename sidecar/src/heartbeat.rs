//! Heartbeats of a run. They bypass the spool, because an old heartbeat carries no information.

use std::time::Duration;

use pilothouse_wire::RawEvent;
use pilothouse_wire::gateway::SendEntry;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, error};

use crate::broker::Broker;
use crate::faults::Faults;
use crate::publisher::{Connection, PublishError};
use crate::spool::Sealer;

/// Sends a heartbeat every `every`, and immediately when the agent starts or stops waiting for disk space (`held`
/// counts the waiting writes). Returns when the broker refuses the run for good or its lease has expired.
pub async fn run(
    broker: Broker,
    sealer: Sealer,
    every: Duration,
    connection: &Connection,
    faults: Faults,
    mut held: watch::Receiver<usize>,
) -> PublishError {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut disk_full = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            Ok(_) = held.wait_for(|count| (*count > 0) != disk_full) => {}
        }
        disk_full = *held.borrow() > 0;
        faults.while_silent().await;
        let Some(sent) = connection.lease.before_publish() else { return PublishError::LeaseExpired };
        let entry = match sealer.seal(None, None, RawEvent::Heartbeat { disk_full }) {
            Ok((id, body)) => SendEntry { deduplication_id: format!("{id}:1"), body },
            Err(e) => {
                error!(error = &e as &dyn std::error::Error, "failed to sign a heartbeat");
                continue;
            }
        };
        match broker.send(vec![entry]).await {
            Ok(result) if !result.accepted.is_empty() => connection.published(sent),
            Ok(_) => {
                connection.link.failed();
                debug!("the broker rejected a heartbeat");
            }
            Err(e) if e.is_final() => return PublishError::Rejected(e),
            Err(e) => {
                connection.link.failed();
                debug!(error = &e as &dyn std::error::Error, "failed to send a heartbeat");
            }
        }
    }
}
