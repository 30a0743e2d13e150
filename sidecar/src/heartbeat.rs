//! Heartbeats of a run. They bypass the spool, because an old heartbeat carries no information. Accepted events count as heartbeats
//! (decision 13).

use std::time::Duration;

use pilothouse_wire::RawEvent;
use pilothouse_wire::gateway::SendEntry;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, error};

use crate::broker::Broker;
use crate::faults::Faults;
use crate::link::Link;
use crate::publisher::{Connection, PublishError};
use crate::spool::Sealer;

/// The last heartbeat.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    at: Instant,
    disk_full: bool,
    accepted: bool,
}

/// Sends a heartbeat at the start and whenever nothing was accepted for `every`, and immediately when the agent starts or stops waiting
/// for disk space (`held` counts the waiting writes). Returns when the broker refuses the run for good or its lease has expired.
pub async fn run(
    broker: Broker,
    sealer: Sealer,
    every: Duration,
    connection: &Connection,
    faults: Faults,
    mut held: watch::Receiver<usize>,
) -> PublishError {
    let mut last: Option<Attempt> = None;
    loop {
        let was_full = last.is_some_and(|last| last.disk_full);
        tokio::select! {
            () = due(&connection.link, last, every) => {}
            Ok(_) = held.wait_for(|count| (*count > 0) != was_full) => {}
        }
        let disk_full = *held.borrow() > 0;
        faults.while_silent().await;
        let attempt = Attempt { at: Instant::now(), disk_full, accepted: false };
        last = Some(attempt);
        let Some(sent) = connection.lease.before_publish() else { return PublishError::LeaseExpired };
        let entry = match sealer.seal(None, None, None, RawEvent::Heartbeat { disk_full }) {
            Ok((id, body)) => SendEntry { deduplication_id: format!("{id}:1"), body },
            Err(e) => {
                error!(error = &e as &dyn std::error::Error, "failed to sign a heartbeat");
                continue;
            }
        };
        match broker.send(vec![entry]).await {
            Ok(result) if !result.accepted.is_empty() => {
                connection.published(sent);
                last = Some(Attempt { accepted: true, ..attempt });
            }
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

/// Waits until a heartbeat is due: `every` after the last accepted request. A heartbeat that was not accepted is repeated after `every`
/// even if events are accepted, because only heartbeats report the state of the disk.
async fn due(link: &Link, last: Option<Attempt>, every: Duration) {
    let Some(last) = last else { return };
    loop {
        let published = link.published_at().filter(|_| last.accepted);
        let at = published.map_or(last.at, |at| at.max(last.at)) + every;
        if at <= Instant::now() {
            return;
        }
        sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(15);

    fn attempt(accepted: bool) -> Attempt {
        Attempt { at: Instant::now(), disk_full: false, accepted }
    }

    /// How long a heartbeat waits while an event is accepted every six seconds, up to `events` of them.
    async fn wait(last: Option<Attempt>, events: u32) -> Duration {
        let (link, start) = (Link::default(), Instant::now());
        let working = async {
            for _ in 0..events {
                tokio::time::sleep(Duration::from_secs(6)).await;
                link.published(Instant::now());
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = due(&link, last, EVERY) => {}
            () = working => {}
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeat_follows_an_interval_without_an_accepted_event() {
        assert_eq!(wait(Some(attempt(true)), 0).await, EVERY);
        assert_eq!(wait(Some(attempt(true)), 100).await, Duration::from_mins(10) + EVERY);
    }

    #[tokio::test(start_paused = true)]
    async fn first_heartbeat_waits_for_nothing() {
        assert_eq!(wait(None, 100).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_heartbeat_is_repeated_although_events_are_accepted() {
        assert_eq!(wait(Some(attempt(false)), 100).await, EVERY);
    }
}
