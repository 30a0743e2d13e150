//! `GET /api/agents/chains/{id}`: returns a chain with its sessions and documents (S0 8.7 `GetSessionChainQuery`).

use axum::extract::State;
use pilothouse_api::chains::ChainView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{SessionChain, SessionChainId};

use crate::loading::load_chain_sessions;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("chains-get", Verb::Get, "/api/agents/chains/{id}", |verb| verb.route(get_chain))
        .owner()
        .summary("Get a chain with its sessions and handoff documents")
        .output::<ChainView>(&[200]);

/// Responds with 200 and the chain. Commands accept its `ETag` in `If-Match`.
async fn get_chain(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<SessionChainId>,
) -> Result<CommandResponse, Problem> {
    let chain = app.store.aggregate::<SessionChain>(&owner, id).await?;
    let chain = chain.ok_or_else(|| Problem::NotFound("there is no such chain".to_owned()))?;
    let sessions = load_chain_sessions(&app, &chain.value).await?;
    CommandResponse::ok(chain.version, &ChainView::of(&chain.value, &sessions, chain.version))
}
