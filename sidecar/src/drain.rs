//! `drain`: sends what a dead sidecar left in its spool.

use std::path::Path;
use std::sync::Arc;

use crate::exit::Exit;
use crate::faults::Faults;
use crate::gateway::Gateway;
use crate::link::Link;
use crate::publisher::{PublishError, Publisher};
use crate::run::RunError;
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
    let gateway = Gateway::new(&launch.broker).map_err(RunError::Gateway)?;
    let spool = Spool::open(&dir.spool_path(), Sealer::new(&launch))?;
    // Nobody is left who could be asked for them.
    spool.release_withheld().await?;
    let (publisher, _drained) = Publisher::new(spool, gateway, Arc::new(Link::default()), Faults::default());
    match publisher.drain().await {
        Ok(()) => Ok(Exit::Done),
        Err(PublishError::Rejected(_)) => Ok(Exit::Rejected),
        Err(PublishError::Spool(e)) => Err(e.into()),
    }
}
