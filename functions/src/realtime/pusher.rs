//! A connection of API Gateway that a push posts to.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::connections::{Connections, PostError};
use pilothouse_app::error_chain;
use pilothouse_store::{CommitError, ConnectionId, Followed, StoreError};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// The time that one push spends on one connection, unless a single message takes longer.
pub(super) const TURN: Duration = Duration::from_secs(2);
/// The timeout of a call to API Gateway. A call that times out is not repeated, because it would delay other connections.
const CALL: Duration = Duration::from_secs(3);
/// The maximum number of attempts to post a message that is refused.
const TRIES: u32 = 3;
/// Doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// The connection has received everything, is gone, or was closed.
    Whole,
    /// The connection has more entries to receive.
    InPart,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum PushError {
    #[error("a connection can neither be posted to nor closed")]
    Stuck(#[source] PostError),
    #[error("a message cannot be written")]
    Unwritable(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Move(#[from] CommitError),
    #[error("the task that served a connection failed")]
    CutShort(#[from] tokio::task::JoinError),
}

pub(super) struct PushTarget {
    app: App,
    connections: Arc<dyn Connections>,
    followed: Followed,
    id: ConnectionId,
}

impl PushTarget {
    pub(super) fn new(
        app: &App,
        connections: &Arc<dyn Connections>,
        followed: &Followed,
        id: ConnectionId,
    ) -> Self {
        let (app, connections) = (app.clone(), Arc::clone(connections));
        Self { app, connections, followed: followed.clone(), id }
    }

    pub(super) const fn id(&self) -> &ConnectionId {
        &self.id
    }

    pub(super) async fn post(&self, text: &str) -> Result<(), PostError> {
        let mut pause = PAUSE;
        for attempt in 1.. {
            match in_time(self.connections.post(&self.id, text)).await {
                Err(PostError::Failed(cause)) if attempt < TRIES && !cause.is::<Elapsed>() => {
                    tokio::time::sleep(pause).await;
                }
                done => return done,
            }
            pause *= 2;
        }
        Ok(())
    }

    /// Ends a connection that could not be posted to. Its client reconnects.
    pub(super) async fn end(&self, error: PostError) -> Result<(), PushError> {
        if matches!(error, PostError::Gone) {
            return self.forget().await;
        }
        tracing::warn!(followed = ?self.followed, cause = %error_chain(&error), "failed to post to a connection");
        self.dismiss("it accepts no messages").await
    }

    /// Closes the connection and deletes its record.
    pub(super) async fn dismiss(&self, why: &str) -> Result<(), PushError> {
        tracing::info!(followed = ?self.followed, why, "a connection is closed");
        match in_time(self.connections.close(&self.id)).await {
            Ok(()) | Err(PostError::Gone) => self.forget().await,
            Err(error) => Err(PushError::Stuck(error)),
        }
    }

    async fn forget(&self) -> Result<(), PushError> {
        Ok(self.app.store.remove_watcher(&self.followed, &self.id).await?)
    }
}

/// Fails a call that takes too long.
async fn in_time(call: impl Future<Output = Result<(), PostError>>) -> Result<(), PostError> {
    timeout(CALL, call).await.unwrap_or_else(|late| Err(PostError::Failed(Box::new(late))))
}
