//! Coherence issues of projects.

use pilothouse_api::Page;
use pilothouse_api::coherence::{CoherenceAudit, CoherenceIssueView, CoherenceReport};
use pilothouse_domain::coherence::{CoherenceCategory, CoherenceState};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::{CoherenceIssueId, ProjectId};
use serde_json::{Value, json};

use super::inputs::{EmptyBody, PageQuery};
use super::{ApiError, Client};

const COHERENCE: &str = "api/coherence";

/// Which issues to list.
#[derive(Debug, Clone, Default)]
pub struct CoherenceFilter {
    /// `None` means the owner's only project.
    pub project: Option<ProjectId>,
    /// State of the issues.
    pub state: Option<CoherenceState>,
    /// How bad they are.
    pub severity: Option<Severity>,
    /// In which way the parts do not fit.
    pub category: Option<CoherenceCategory>,
    /// Id of a workstream that they concern.
    pub workstream: Option<String>,
}

impl CoherenceFilter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("projectId", self.project.map(|id| id.to_string())),
            ("state", self.state.map(|state| state.to_string())),
            ("severity", self.severity.map(|severity| severity.to_string())),
            ("category", self.category.map(|category| category.to_string())),
            ("workstream", self.workstream.clone()),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Client {
    /// Lists a page of coherence issues, the open ones first.
    pub async fn coherence_issues(
        &self,
        filter: &CoherenceFilter,
        page_query: &PageQuery,
    ) -> Result<Page<CoherenceIssueView>, ApiError> {
        let mut query = page_query.query();
        query.extend(filter.query());
        self.get_with(COHERENCE.to_owned(), query).await
    }

    /// Reads a coherence issue.
    pub async fn coherence_issue(&self, id: CoherenceIssueId) -> Result<CoherenceIssueView, ApiError> {
        self.get(format!("{COHERENCE}/{id}")).await
    }

    /// Reports a coherence issue with the fields of the API.
    pub async fn report_coherence_issue(&self, issue: &Value) -> Result<CoherenceIssueView, ApiError> {
        self.post(COHERENCE.to_owned(), issue).await
    }

    /// Compares the texts of a project's artifacts.
    pub async fn audit_coherence(&self, project: Option<ProjectId>) -> Result<CoherenceAudit, ApiError> {
        let body = project.map_or_else(|| json!({}), |id| json!({ "projectId": id }));
        self.post(format!("{COHERENCE}/audit"), &body).await
    }

    /// Confirms that an issue is real.
    pub async fn confirm_coherence_issue(
        &self,
        id: CoherenceIssueId,
    ) -> Result<CoherenceIssueView, ApiError> {
        self.post(format!("{COHERENCE}/{id}/confirm"), &EmptyBody {}).await
    }

    /// Dismisses an issue that is not real.
    pub async fn dismiss_coherence_issue(
        &self,
        id: CoherenceIssueId,
        reason: Option<&str>,
    ) -> Result<CoherenceIssueView, ApiError> {
        let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
        self.post(format!("{COHERENCE}/{id}/dismiss"), &body).await
    }

    /// Records that the parts of an issue fit together now.
    pub async fn resolve_coherence_issue(
        &self,
        id: CoherenceIssueId,
        resolution: &str,
    ) -> Result<CoherenceIssueView, ApiError> {
        self.post(format!("{COHERENCE}/{id}/resolve"), &json!({ "resolution": resolution })).await
    }

    /// Reads the coherence score of a project.
    pub async fn coherence_score(&self, project: ProjectId) -> Result<CoherenceReport, ApiError> {
        self.get(format!("api/projects/{project}/coherence")).await
    }
}
