//! `GET /api/agents/chains`: the owner's chains, newest first (S0 8.7 `ListSessionChainsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::SessionChain;
use pilothouse_domain::chain::SessionChainStatus;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use crate::api::Page;
use crate::api::chains::ChainSummary;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};

/// 200 with a page; `status` keeps those in one status. A page may be short although there are more.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<ChainSummary>>, Problem> {
    let status = parameters.text("status").map(parse_status).transpose()?;
    let keep = |chain: &SessionChain| status.is_none_or(|wanted| chain.status() == wanted);
    let filter = parameters.text("status").unwrap_or_default();
    let chains = app.page_of_owned(&owner, &page, filter, true, keep, SessionChain::clone).await?;
    let mut items = Vec::with_capacity(chains.items.len());
    for chain in chains.items {
        // The account of the current session is the chain's (ruling 33).
        let current = app.store.session(chain.current_session_id()).await?;
        let total = current.map(|session| session.budget().account_usd()).unwrap_or_default();
        items.push(ChainSummary::of(&chain, total));
    }
    Ok(Json(Page { items, next_cursor: chains.next_cursor }))
}

fn parse_status(text: &str) -> Result<SessionChainStatus, Problem> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    SessionChainStatus::deserialize(text).map_err(|_| {
        let all: Vec<_> = SessionChainStatus::ALL.iter().map(ToString::to_string).collect();
        Problem::invalid("status", format!("must be one of {}", all.join(", ")))
    })
}
