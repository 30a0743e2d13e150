//! Chains of sessions (S0 8.9).

use pilothouse_domain::SessionChainId;
use pilothouse_domain::chain::SessionChainStatus;
use pilothouse_functions::api::Page;
use pilothouse_functions::api::chains::{ChainSummary, ChainView};

use super::inputs::{Nothing, Slice};
use super::resolve::{ResolveError, compact, part_of_id};
use super::{ApiError, Client};

const CHAINS: &str = "api/agents/chains";
/// Pages of chains that are searched, of 100 each.
const MAX_PAGES: usize = 50;

fn of(id: SessionChainId, rest: &str) -> String {
    format!("{CHAINS}/{id}{rest}")
}

impl Client {
    /// A page of the owner's chains, latest first.
    pub async fn chains(
        &self,
        status: Option<SessionChainStatus>,
        slice: &Slice,
    ) -> Result<Page<ChainSummary>, ApiError> {
        let mut query = slice.query();
        query.extend(status.map(|status| ("status", status.to_string())));
        self.get_with(CHAINS.to_owned(), query).await
    }

    /// A chain with its sessions and documents.
    pub async fn chain(&self, id: SessionChainId) -> Result<ChainView, ApiError> {
        self.get(of(id, "")).await
    }

    /// Says that the work of a chain is done.
    pub async fn complete_chain(&self, id: SessionChainId) -> Result<ChainView, ApiError> {
        self.post(of(id, "/complete"), &Nothing {}).await
    }

    /// Ends a chain with its sessions.
    pub async fn cancel_chain(&self, id: SessionChainId) -> Result<ChainView, ApiError> {
        self.post(of(id, "/cancel"), &Nothing {}).await
    }

    /// The chain that `given` means: its whole id, the beginning or the end of it.
    pub async fn resolve_chain(&self, given: &str) -> Result<SessionChainId, ResolveError> {
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let part = part_of_id(given)?;
        let mut found = Vec::new();
        let mut slice = Slice { limit: Some(100), cursor: None };
        for _ in 0..MAX_PAGES {
            let page = self.chains(None, &slice).await?;
            let like = |chain: &ChainSummary| {
                let id = compact(&chain.id.to_string());
                id.starts_with(&part) || id.ends_with(&part)
            };
            found.extend(page.items.into_iter().filter(like));
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
                break;
            }
        }
        match found.as_slice() {
            [] => Err(ResolveError::NoChainLike(given.to_owned())),
            [one] => Ok(one.id),
            several => Err(ResolveError::Ambiguous {
                given: given.to_owned(),
                candidates: several.iter().take(5).map(|chain| chain.id.to_string()).collect(),
            }),
        }
    }
}
