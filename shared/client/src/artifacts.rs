//! Artifacts and the knowledge of projects.

use pilothouse_api::Page;
use pilothouse_api::artifacts::{ArtifactDiff, ArtifactUploadResult, ArtifactView};
use pilothouse_api::knowledge::SearchResults;
use pilothouse_domain::artifact::{ArtifactKind, ArtifactState, ArtifactSummary, ArtifactVersion};
use pilothouse_domain::knowledge::KnowledgeSnapshot;
use pilothouse_domain::{ArtifactId, ProjectAgentId, ProjectId};
use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::inputs::PageQuery;
use super::{ApiError, Client, response_error};

const ARTIFACTS: &str = "api/artifacts";

/// The filters of a list of artifacts.
#[derive(Debug, Clone, Default)]
pub struct ArtifactFilter {
    /// `None` means the owner's only project.
    pub project: Option<ProjectId>,
    /// Id of the workstream that owns them.
    pub workstream: Option<String>,
    /// Kind of the results.
    pub kind: Option<ArtifactKind>,
    /// The agent that has reported them first.
    pub agent: Option<ProjectAgentId>,
    /// State of the review.
    pub state: Option<ArtifactState>,
}

impl ArtifactFilter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let fields = [
            ("projectId", self.project.map(|id| id.to_string())),
            ("workstream", self.workstream.clone()),
            ("kind", self.kind.map(|kind| kind.to_string())),
            ("agentId", self.agent.map(|id| id.to_string())),
            ("state", self.state.map(|state| state.to_string())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Client {
    /// Lists a page of artifacts, those that changed last first.
    pub async fn artifacts(
        &self,
        filter: &ArtifactFilter,
        page_query: &PageQuery,
    ) -> Result<Page<ArtifactSummary>, ApiError> {
        let mut query = page_query.query();
        query.extend(filter.query());
        self.get_with(ARTIFACTS.to_owned(), query).await
    }

    /// Stores a version of an artifact from the fields of the API.
    pub async fn upload_artifact(&self, artifact: &Value) -> Result<ArtifactUploadResult, ApiError> {
        self.post(ARTIFACTS.to_owned(), artifact).await
    }

    /// Reads an artifact.
    pub async fn artifact(&self, id: ArtifactId) -> Result<ArtifactView, ApiError> {
        self.get(format!("{ARTIFACTS}/{id}")).await
    }

    /// Lists a page of the versions of an artifact, latest first.
    pub async fn artifact_versions(
        &self,
        id: ArtifactId,
        page_query: &PageQuery,
    ) -> Result<Page<ArtifactVersion>, ApiError> {
        self.get_with(format!("{ARTIFACTS}/{id}/versions"), page_query.query()).await
    }

    /// Reads the content of a version, or of the latest one.
    pub async fn artifact_content(&self, id: ArtifactId, version: Option<u32>) -> Result<Vec<u8>, ApiError> {
        let path = match version {
            Some(version) => format!("{ARTIFACTS}/{id}/versions/{version}/content"),
            None => format!("{ARTIFACTS}/{id}/content"),
        };
        let request = self.http.get(self.url(&path)?).header(AUTHORIZATION, self.authorization()?);
        let response = request.send().await.map_err(|e| self.transport(e))?;
        if !response.status().is_success() {
            return Err(response_error(response).await);
        }
        Ok(response.bytes().await.map_err(|e| self.transport(e))?.to_vec())
    }

    /// Compares two versions. By default the latest one with the one before.
    pub async fn artifact_diff(
        &self,
        id: ArtifactId,
        from: Option<u32>,
        to: Option<u32>,
    ) -> Result<ArtifactDiff, ApiError> {
        let query = [("from", from), ("to", to)];
        let query = query.into_iter().filter_map(|(name, version)| Some((name, version?.to_string())));
        self.get_with(format!("{ARTIFACTS}/{id}/diff"), query.collect()).await
    }

    /// Approves the latest version, if it is `seen`.
    pub async fn approve_artifact(&self, id: ArtifactId, seen: u32) -> Result<ArtifactView, ApiError> {
        self.post(format!("{ARTIFACTS}/{id}/approve"), &json!({ "version": seen })).await
    }

    /// Rejects the latest version, if it is `seen`.
    pub async fn reject_artifact(
        &self,
        id: ArtifactId,
        seen: u32,
        reason: &str,
    ) -> Result<ArtifactView, ApiError> {
        let body = json!({ "version": seen, "reason": reason });
        self.post(format!("{ARTIFACTS}/{id}/reject"), &body).await
    }

    /// Returns the knowledge snapshot of an agent, within a number of tokens.
    pub async fn knowledge_snapshot(
        &self,
        project: ProjectId,
        agent: ProjectAgentId,
        tokens: Option<u64>,
    ) -> Result<KnowledgeSnapshot, ApiError> {
        let mut query = vec![("agentId", agent.to_string())];
        query.extend(tokens.map(|tokens| ("tokens", tokens.to_string())));
        self.get_with(format!("api/projects/{project}/snapshot"), query).await
    }

    /// Searches the artifacts and objectives of a project by words.
    pub async fn search_knowledge(&self, project: ProjectId, query: &str) -> Result<SearchResults, ApiError> {
        self.get_with(format!("api/projects/{project}/search"), vec![("query", query.to_owned())]).await
    }
}
