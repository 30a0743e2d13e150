//! A connection for tests that records whether it was closed.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_app::http::peer::{Caller, Peer};
use pilothouse_runtime::AtCapacity;
use tokio::sync::watch;
use tokio::time::timeout;

pub(super) struct RecordingPeer(watch::Sender<bool>);

impl RecordingPeer {
    /// Creates an open connection, and returns it also as the server sees it.
    pub(super) fn open() -> (Arc<Self>, Arc<dyn Peer>) {
        let peer = Arc::new(Self(watch::Sender::new(false)));
        (Arc::clone(&peer), peer)
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.0.borrow()
    }

    pub(super) async fn until_closed(&self) {
        let mut closed = self.0.subscribe();
        timeout(Duration::from_mins(1), closed.wait_for(|is_closed| *is_closed)).await.unwrap().unwrap();
    }
}

impl Peer for RecordingPeer {
    fn authenticated(&self, _: Caller) -> Result<(), AtCapacity> {
        Ok(())
    }

    fn close(&self) {
        self.0.send_replace(true);
    }
}
