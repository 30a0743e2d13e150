//! `GET /api/agents/chains`: lists the owner's chains, newest first (S0 8.7 `ListSessionChainsQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::chains::ChainSummary;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_domain::SessionChain;
use pilothouse_domain::chain::SessionChainStatus;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("chains-list", Verb::Get, "/api/agents/chains", |verb| verb.route(list_chains))
        .owner()
        .summary("List chains of sessions, newest first")
        .query(&["limit", "cursor", "status"])
        .output::<Page<ChainSummary>>(&[200]);

/// Responds with 200 and a page. `status` filters by status. A filtered page may be short even if more pages follow.
async fn list_chains(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<ChainSummary>>, Problem> {
    let status = parameters.text("status").map(parse_status).transpose()?;
    let keep = |chain: &SessionChain| status.is_none_or(|wanted| chain.status() == wanted);
    let filter = parameters.text("status").unwrap_or_default();
    let chains = app.page_of_aggregates(&owner, &page, filter, true, keep, SessionChain::clone).await?;
    let mut items = Vec::with_capacity(chains.items.len());
    for chain in chains.items {
        // The current session carries the account of the chain (decision 33).
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
