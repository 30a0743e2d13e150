//! Who watches a session, and the messages of the queue of pushes, which wake [`super::push`].

use pilothouse_broker::{Broker, Outgoing};
use pilothouse_domain::{AgentSessionId, IdSource as _};
use pilothouse_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::app::FreshIds;
use crate::edge::Problem;
use crate::queues;

/// What a message of the queue of pushes says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushOf {
    /// The session whose connections have something to be told.
    pub session_id: AgentSessionId,
}

/// Whether anyone watches a session live: whether a new entry of its journal must wake a push. A consistent query, so that
/// an entry is either seen by the push of a new subscription or wakes one itself.
pub async fn is_watched(store: &Store, session: AgentSessionId) -> Result<bool, StoreError> {
    store.is_watched(session).await
}

/// The message that wakes a push. Each has an id of its own: one that comes after another may have more to tell, so none
/// of them may be taken for a repeat.
pub fn message(session: AgentSessionId) -> Result<Outgoing, serde_json::Error> {
    let body = serde_json::to_string(&PushOf { session_id: session })?;
    Ok(Outgoing::new(session.to_string(), format!("push-{}", FreshIds.fresh()), body))
}

/// Wakes a push.
pub(super) async fn send(broker: &dyn Broker, session: AgentSessionId) -> Result<(), Problem> {
    let message = message(session).map_err(Problem::internal)?;
    let outcome = broker.send(&queues::pushes(), vec![message]).await.map_err(Problem::internal)?;
    match outcome.failed.into_iter().next() {
        None => Ok(()),
        Some((_, error)) => Err(Problem::internal(error)),
    }
}
