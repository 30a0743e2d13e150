//! `drain`: sends what a dead sidecar left in its spool.

use std::path::Path;
use std::sync::Arc;

use crate::broker::{Broker, Purpose};
use crate::exit::Exit;
use crate::faults::Faults;
use crate::link::Link;
use crate::publisher::{PublishError, Publisher};
use crate::retry::Backoff;
use crate::run::{RunError, seconds};
use crate::run_dir::{RunDir, RunDirError};
use crate::spool::{Sealer, Spool};

/// Publishes everything unsent in order. Tries until it succeeds or is refused for good; the caller limits the time.
pub async fn drain(path: &Path) -> Result<Exit, RunError> {
    let dir = match RunDir::lock(path) {
        Err(RunDirError::Locked(_)) => return Ok(Exit::Locked),
        other => other?,
    };
    if !dir.spool_path().exists() {
        return Ok(Exit::Done);
    }
    let launch = dir.launch()?;
    let broker = Broker::new(&launch, Purpose::Leftovers).map_err(RunError::Broker)?;
    let spool = Spool::open(&dir.spool_path(), Sealer::new(&launch))?;
    // Nobody is left who could be asked for them.
    spool.release_withheld().await?;
    let backoff = Backoff::broker(seconds(launch.isolation_seconds));
    let (publisher, _drained) =
        Publisher::new(spool, broker, Arc::new(Link::default()), Faults::default(), backoff);
    match publisher.drain().await {
        Ok(()) => Ok(Exit::Done),
        Err(PublishError::Rejected(_)) => Ok(Exit::Rejected),
        Err(PublishError::Spool(e)) => Err(e.into()),
    }
}
