//! Session chains (S0 8.9).

use pilothouse_api::Page;
use pilothouse_api::chains::{ChainSummary, ChainView};
use pilothouse_domain::SessionChainId;
use pilothouse_domain::chain::SessionChainStatus;

use super::inputs::{EmptyBody, PageQuery};
use super::resolve::{ResolveError, compact, parse_partial_id};
use super::{ApiError, Client};

const CHAINS: &str = "api/agents/chains";
/// In pages of 100 chains.
const MAX_PAGES: usize = 50;

fn chain_path(id: SessionChainId, rest: &str) -> String {
    format!("{CHAINS}/{id}{rest}")
}

impl Client {
    /// Lists a page of the owner's chains, newest first.
    pub async fn chains(
        &self,
        status: Option<SessionChainStatus>,
        page_query: &PageQuery,
    ) -> Result<Page<ChainSummary>, ApiError> {
        let mut query = page_query.query();
        query.extend(status.map(|status| ("status", status.to_string())));
        self.get_with(CHAINS.to_owned(), query).await
    }

    /// Reads a chain with its sessions and handoff documents.
    pub async fn chain(&self, id: SessionChainId) -> Result<ChainView, ApiError> {
        self.get(chain_path(id, "")).await
    }

    /// Completes a chain: its work is done.
    pub async fn complete_chain(&self, id: SessionChainId) -> Result<ChainView, ApiError> {
        self.post(chain_path(id, "/complete"), &EmptyBody {}).await
    }

    /// Cancels a chain with its sessions.
    pub async fn cancel_chain(&self, id: SessionChainId) -> Result<ChainView, ApiError> {
        self.post(chain_path(id, "/cancel"), &EmptyBody {}).await
    }

    /// Finds a chain by its id, or by the beginning or end of it.
    pub async fn resolve_chain(&self, given: &str) -> Result<SessionChainId, ResolveError> {
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let part = parse_partial_id(given)?;
        let mut found = Vec::new();
        let mut page_query = PageQuery { limit: Some(100), cursor: None };
        for _ in 0..MAX_PAGES {
            let page = self.chains(None, &page_query).await?;
            let like = |chain: &ChainSummary| {
                let id = compact(&chain.id.to_string());
                id.starts_with(&part) || id.ends_with(&part)
            };
            found.extend(page.items.into_iter().filter(like));
            page_query.cursor = page.next_cursor;
            if page_query.cursor.is_none() {
                break;
            }
        }
        match found.as_slice() {
            [] => Err(ResolveError::NoChain(given.to_owned())),
            [one] => Ok(one.id),
            several => Err(ResolveError::Ambiguous {
                given: given.to_owned(),
                candidates: several.iter().take(5).map(|chain| chain.id.to_string()).collect(),
            }),
        }
    }
}
