//! Loads what functions of several folders read.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::webhook::Webhook;
use pilothouse_domain::{AgentSession, AgentSessionId, SessionChain, UserId, WebhookId};
use pilothouse_store::Loaded;

/// The most sessions that are read at the same time.
const CONCURRENT_READS: usize = 16;

/// Loads the current state of some sessions. Sessions that do not exist are left out.
pub(crate) async fn load_sessions(
    app: &App,
    ids: &BTreeSet<AgentSessionId>,
) -> Result<Vec<Arc<AgentSession>>, Problem> {
    let ids: Vec<_> = ids.iter().copied().collect();
    let mut sessions = Vec::with_capacity(ids.len());
    for some in ids.chunks(CONCURRENT_READS) {
        let loaded = try_join_all(some.iter().map(|id| app.store.shared_session(*id))).await?;
        sessions.extend(loaded.into_iter().flatten());
    }
    Ok(sessions)
}

/// Loads the current state of the sessions of a chain.
pub(crate) async fn load_chain_sessions(
    app: &App,
    chain: &SessionChain,
) -> Result<Vec<AgentSession>, Problem> {
    let mut sessions = Vec::with_capacity(chain.len());
    for chained in chain.sessions() {
        sessions.extend(app.store.session(chained.session_id).await?);
    }
    Ok(sessions)
}

/// Loads a webhook of the owner. Fails with "not found" when the owner has no such webhook.
pub(crate) async fn load_webhook(
    app: &App,
    owner: &UserId,
    id: WebhookId,
) -> Result<Loaded<Webhook>, Problem> {
    let webhook = app.store.webhook(owner, id).await?;
    webhook.ok_or_else(|| Problem::NotFound("there is no such webhook".to_owned()))
}
