//! The knowledge of a project in the API (S2, "Knowledge Store"; decision 84).

use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::{ArtifactId, ProjectAgentId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The results of a search, the best first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResults {
    /// At most 20 artifacts and objectives.
    pub items: Vec<SearchHit>,
    /// The words that were searched for.
    pub terms: Vec<String>,
}

/// An artifact, or the objective of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The id of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<ArtifactId>,
    /// The id of the agent with the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<ProjectAgentId>,
    /// The workstream.
    pub workstream: WorkstreamId,
    /// The name of the artifact, or the objective.
    pub title: String,
    /// The number of words of the query that it has.
    pub matched_terms: usize,
}
