//! The inbox: decisions that wait for the owner, over all sessions (decision 74).

use pilothouse_api::decisions::{DecisionPage, DecisionView};
use pilothouse_domain::DecisionId;

use super::inputs::{DecisionFilter, PageQuery, ResolveDecision};
use super::{ApiError, Client};

const DECISIONS: &str = "api/decisions";

impl Client {
    /// Decisions of the owner: pending ones in the order of the inbox, or ended ones, latest first.
    pub async fn decisions(
        &self,
        filter: &DecisionFilter,
        page_query: &PageQuery,
    ) -> Result<DecisionPage, ApiError> {
        let mut query = page_query.query();
        query.extend(filter.state.map(|state| ("state", state.to_string())));
        query.extend(filter.kind.map(|kind| ("kind", kind.to_string())));
        query.extend(filter.session.map(|session| ("session", session.to_string())));
        query.extend(filter.counts.then(|| ("counts", "true".to_owned())));
        self.get_with(DECISIONS.to_owned(), query).await
    }

    /// A decision.
    pub async fn decision(&self, id: DecisionId) -> Result<DecisionView, ApiError> {
        self.get_with(format!("{DECISIONS}/{id}"), Vec::new()).await
    }

    /// Resolves a pending decision.
    pub async fn resolve_decision(
        &self,
        id: DecisionId,
        resolution: &ResolveDecision,
    ) -> Result<DecisionView, ApiError> {
        self.post(format!("{DECISIONS}/{id}/resolve"), resolution).await
    }
}
