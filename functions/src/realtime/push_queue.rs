//! The messages of the pushes queue, which trigger [`super::push`].

use pilothouse_app::FreshIds;
use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_broker::{Broker, OutgoingMessage};
use pilothouse_domain::{AgentSessionId, IdSource as _};
use pilothouse_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushOf {
    /// The session that has new entries for its connections.
    pub session_id: AgentSessionId,
}

/// Whether a connection follows a session, so that a new journal entry must trigger a push. The read is consistent: an entry is
/// either seen by the push of a new subscription or triggers a push.
pub async fn is_watched(store: &Store, session: AgentSessionId) -> Result<bool, StoreError> {
    store.is_watched(session).await
}

/// The message that triggers a push. Each message has a unique id, because a later one may announce more entries and must not be
/// deduplicated.
pub fn message(session: AgentSessionId) -> Result<OutgoingMessage, serde_json::Error> {
    let body = serde_json::to_string(&PushOf { session_id: session })?;
    Ok(OutgoingMessage::new(session.to_string(), format!("push-{}", FreshIds.fresh()), body))
}

pub(super) async fn send(broker: &dyn Broker, session: AgentSessionId) -> Result<(), Problem> {
    let message = message(session).map_err(Problem::internal)?;
    let outcome = broker.send(&queues::pushes(), vec![message]).await.map_err(Problem::internal)?;
    match outcome.failed.into_iter().next() {
        None => Ok(()),
        Some((_, error)) => Err(Problem::internal(error)),
    }
}
