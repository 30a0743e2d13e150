//! Posts a decision that changed to the connections that follow its owner's inbox (decision 80).
//!
//! A push posts the state that the decision has now. The pushes queue has one group per owner, so the last post of a decision is
//! never older than its last commit.

use std::sync::Arc;

use pilothouse_api::decisions::{ChangedDecision, DecisionView, InboxMessage};
use pilothouse_app::App;
use pilothouse_app::connections::{Connections, MAX_MESSAGE_BYTES};
use pilothouse_app::http::Problem;
use pilothouse_domain::decision::Decision;
use pilothouse_domain::{DecisionId, UserId};
use pilothouse_store::Followed;
use tokio::task::JoinSet;

use super::pusher::{PushError, PushTarget};

pub(super) async fn push_decision(
    app: &App,
    connections: &Arc<dyn Connections>,
    owner: &UserId,
    id: DecisionId,
) -> Result<(), Problem> {
    let followed = Followed::Inbox(owner.clone());
    let watchers = app.store.watchers(&followed).await?;
    if watchers.is_empty() {
        return Ok(());
    }
    let Some(decision) = app.store.decision_of(owner, id).await? else { return Ok(()) };
    let text: Arc<str> = frame(&decision).map_err(Problem::internal)?.into();
    let mut serving = JoinSet::new();
    for (connection, watcher) in watchers {
        let target = PushTarget::new(app, connections, &followed, connection);
        let (text, is_over) = (Arc::clone(&text), watcher.value.token_ends <= app.now());
        serving.spawn(async move {
            if is_over {
                return target.dismiss("its token has ended").await;
            }
            match target.post(&text).await {
                Ok(()) => Ok(()),
                Err(error) => target.end(error).await,
            }
        });
    }
    let mut failed = None;
    while let Some(served) = serving.join_next().await {
        if let Err(error) = served.map_err(PushError::from).and_then(|served| served) {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), |error| Err(Problem::internal(error)))
}

fn frame(decision: &Decision) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(&InboxMessage::Decision(Box::new(DecisionView::of(decision))))?;
    if text.len() <= MAX_MESSAGE_BYTES {
        return Ok(text);
    }
    serde_json::to_string(&InboxMessage::Changed(ChangedDecision { id: decision.id }))
}
