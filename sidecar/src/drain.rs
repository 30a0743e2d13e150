//! `drain`: sends the events that a dead sidecar left in its spool, and lists files that its agent did not report.

use std::path::Path;
use std::time::Duration;

use crate::batching::BatchWindow;
use crate::broker::{Broker, Purpose};
use crate::exit::Exit;
use crate::faults::Faults;
use crate::publisher::Connection;
use crate::publisher::{PublishError, Publisher};
use crate::retry::Backoff;
use crate::run::{RunError, seconds};
use crate::run_dir::{RunDir, RunDirError};
use crate::spool::{Sealer, Spool};
use crate::unreported;

/// Upper bound of the heartbeat interval from which the backoff follows: a drain has little time, so it must send soon after an
/// outage.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// Publishes all unsent events in order, until all are sent or the broker refuses the run for good. The caller limits
/// the time.
pub async fn drain(path: &Path) -> Result<Exit, RunError> {
    let dir = match RunDir::lock(path) {
        Err(RunDirError::Locked(_)) => return Ok(Exit::Locked),
        other => other?,
    };
    if !dir.has_spool()? {
        return Ok(Exit::Done);
    }
    let launch = dir.launch()?;
    let spool = Spool::open(&dir.spool_path(), Sealer::new(&launch))?;
    // No sidecar can answer a replay any more, so withheld events are sent now.
    spool.release_withheld().await?;
    let publish = async || {
        let broker = Broker::new(&launch, Purpose::Leftovers).map_err(RunError::Broker)?;
        let backoff = Backoff::broker(seconds(launch.heartbeat_seconds).min(HEARTBEAT));
        let (window, connection) = (BatchWindow::default(), Connection::default());
        let (publisher, _drained) =
            Publisher::new(spool.clone(), broker, window, connection, Faults::default(), backoff);
        match publisher.drain().await {
            Ok(()) => Ok(Exit::Done),
            // `LeaseExpired` cannot occur: a drain has no lease, because the agent is gone.
            Err(PublishError::Rejected(_) | PublishError::LeaseExpired) => Ok(Exit::Rejected),
            Err(PublishError::Spool(e)) => Err(e.into()),
        }
    };
    // Leftover events come first, because the caller limits the time.
    match publish().await? {
        Exit::Done if unreported::report(&launch, &spool).await? => publish().await,
        exit => Ok(exit),
    }
}
