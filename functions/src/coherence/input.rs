//! The body of an issue that an agent or a person reports (S2 `CoherenceEvent`).

use std::collections::BTreeSet;

use deserr::Deserr;
use futures_util::future::try_join_all;
use pilothouse_api::input::{FieldError, Violations, distinct_ids};
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::artifact::Artifact;
use pilothouse_domain::coherence::{CoherenceCategory, CoherenceIssue, Finding, IssueSource};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::text::{IssueDescription, IssueTitle, WorkstreamId};
use pilothouse_domain::{ArtifactId, Project, ProjectAgentId, ProjectId, Timestamp, UserId};
use schemars::JsonSchema;

/// Work of different agents that does not fit together.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReportIssue {
    /// The project. Agents, and owners with one project, may omit it.
    #[deserr(default)]
    pub project_id: Option<ProjectId>,
    /// The issue in a line.
    pub title: IssueTitle,
    /// The issue in sentences.
    pub description: IssueDescription,
    /// The kind of problem between the parts.
    pub category: CoherenceCategory,
    /// The severity. Default: medium.
    #[deserr(default)]
    pub severity: Option<Severity>,
    /// The affected workstreams: at most 20. The workstreams of the artifacts are added.
    #[deserr(default, try_from(Option<Vec<WorkstreamId>>) = workstreams -> FieldError)]
    #[schemars(with = "Option<Vec<WorkstreamId>>")]
    pub affected_workstreams: Vec<WorkstreamId>,
    /// The affected artifacts: at most 20.
    #[deserr(default, try_from(Option<Vec<String>>) = artifacts -> FieldError)]
    #[schemars(with = "Option<Vec<ArtifactId>>")]
    pub affected_artifact_ids: Vec<ArtifactId>,
}

fn workstreams(ids: Option<Vec<WorkstreamId>>) -> Result<Vec<WorkstreamId>, FieldError> {
    let ids = ids.unwrap_or_default();
    let mut seen = BTreeSet::new();
    match ids.iter().find(|id| !seen.insert(*id)) {
        Some(twice) => Err(FieldError(format!("{twice} is listed twice"))),
        None => at_most(ids),
    }
}

fn artifacts(texts: Option<Vec<String>>) -> Result<Vec<ArtifactId>, FieldError> {
    at_most(distinct_ids(texts.unwrap_or_default())?)
}

fn at_most<T>(ids: Vec<T>) -> Result<Vec<T>, FieldError> {
    let max = CoherenceIssue::MAX_AFFECTED;
    if ids.len() > max { Err(FieldError(format!("must have at most {max} entries"))) } else { Ok(ids) }
}

impl ReportIssue {
    /// The artifacts that the issue concerns.
    ///
    /// # Errors
    /// A violation for an artifact or a workstream that the project does not have.
    pub(crate) async fn load(
        &self,
        app: &App,
        owner: &UserId,
        project: &Project,
    ) -> Result<Vec<Artifact>, Problem> {
        if let Some(unknown) = self.affected_workstreams.iter().find(|it| !project.has_workstream(it)) {
            let message = format!("the project has no workstream `{unknown}`");
            return Err(Problem::invalid("affectedWorkstreams", message));
        }
        let reads = self.affected_artifact_ids.iter().map(|id| async move {
            let artifact = app.store.aggregate::<Artifact>(owner, *id).await?.map(|loaded| loaded.value);
            let artifact = artifact.filter(|artifact| artifact.project_id() == project.id());
            let message = || format!("the project has no artifact {id}");
            artifact.ok_or_else(|| Problem::invalid("affectedArtifactIds", message()))
        });
        try_join_all(reads).await
    }

    /// The workstreams that it names, those of the artifacts, and `own`.
    pub(crate) fn workstreams(
        &self,
        artifacts: &[Artifact],
        own: Option<&WorkstreamId>,
    ) -> Vec<WorkstreamId> {
        let of_artifacts = artifacts.iter().map(Artifact::workstream);
        let all: BTreeSet<_> =
            own.into_iter().chain(&self.affected_workstreams).chain(of_artifacts).collect();
        all.into_iter().cloned().collect()
    }

    pub(crate) fn finding(
        &self,
        source: IssueSource,
        artifacts: &[Artifact],
        own: Option<&WorkstreamId>,
        at: Timestamp,
    ) -> Finding {
        let authors = artifacts.iter().filter_map(|artifact| artifact.latest().author.agent());
        let agents: BTreeSet<ProjectAgentId> = authors.collect();
        Finding {
            source,
            category: self.category,
            severity: self.severity.unwrap_or(Severity::Medium),
            title: self.title.to_string(),
            description: self.description.to_string(),
            affected_workstreams: self.workstreams(artifacts, own),
            affected_artifact_ids: self.affected_artifact_ids.clone(),
            affected_agent_ids: agents.into_iter().collect(),
            evidence_at: at,
        }
    }
}
