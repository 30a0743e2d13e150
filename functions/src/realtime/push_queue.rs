//! The messages of the pushes queue, which trigger [`super::push`].

use pilothouse_app::FreshIds;
use pilothouse_app::http::Problem;
use pilothouse_app::project_stream::ProjectSource;
use pilothouse_app::queues;
use pilothouse_broker::{Broker, OutgoingMessage};
use pilothouse_domain::{AgentSessionId, DecisionId, IdSource as _, ProjectId, UserId};
use pilothouse_store::{Followed, Store, StoreError};
use serde::{Deserialize, Serialize};

/// What has changed for connections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum PushOf {
    /// A session has new entries.
    Session { session_id: AgentSessionId },
    /// A decision of the owner's inbox changed.
    Decision { owner_id: UserId, decision_id: DecisionId },
    /// Something of a project changed; everything, if `source` is absent.
    Project {
        project_id: ProjectId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<ProjectSource>,
    },
}

impl From<AgentSessionId> for PushOf {
    fn from(session_id: AgentSessionId) -> Self {
        Self::Session { session_id }
    }
}

impl PushOf {
    fn followed(&self) -> Followed {
        match self {
            Self::Session { session_id } => Followed::Session(*session_id),
            Self::Decision { owner_id, .. } => Followed::Inbox(owner_id.clone()),
            Self::Project { project_id, .. } => Followed::Project(*project_id),
        }
    }

    /// The message group: messages of a group are processed in order.
    pub(super) fn group(&self) -> String {
        match self {
            Self::Session { session_id } => session_id.to_string(),
            Self::Decision { owner_id, .. } => queues::owner_group(owner_id),
            Self::Project { project_id, .. } => project_id.to_string(),
        }
    }
}

/// Whether a connection follows what changed, so that a push must be triggered. The read is consistent: a change is either seen by
/// a new subscription or triggers a push.
pub async fn is_watched(store: &Store, push: &PushOf) -> Result<bool, StoreError> {
    store.is_watched(&push.followed()).await
}

/// The message that triggers a push. Each message has a unique id, because a later one may announce more changes and must not be
/// deduplicated.
pub fn message(push: &PushOf) -> Result<OutgoingMessage, serde_json::Error> {
    let body = serde_json::to_string(push)?;
    Ok(OutgoingMessage::new(push.group(), format!("push-{}", FreshIds.fresh()), body))
}

pub(super) async fn send(broker: &dyn Broker, push: &PushOf) -> Result<(), Problem> {
    let message = message(push).map_err(Problem::internal)?;
    let outcome = broker.send(&queues::pushes(), vec![message]).await.map_err(Problem::internal)?;
    match outcome.failed.into_iter().next() {
        None => Ok(()),
        Some((_, error)) => Err(Problem::internal(error)),
    }
}
