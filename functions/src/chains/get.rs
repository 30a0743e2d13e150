//! `GET /api/agents/chains/{id}`: a chain with its sessions and documents (S0 8.7 `GetSessionChainQuery`).

use axum::extract::State;
use pilothouse_domain::{SessionChain, SessionChainId};

use super::sessions_of;
use crate::api::chains::ChainView;
use crate::app::App;
use crate::change::Answer;
use crate::edge::{Id, Owner, Problem};

/// 200 with the chain; its `ETag` is for `If-Match` on commands.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<SessionChainId>,
) -> Result<Answer, Problem> {
    let chain = app.store.owned::<SessionChain>(&owner, id).await?;
    let chain = chain.ok_or_else(|| Problem::NotFound("there is no such chain".to_owned()))?;
    let sessions = sessions_of(&app, &chain.value).await?;
    Answer::ok(chain.version, &ChainView::of(&chain.value, &sessions, chain.version))
}
