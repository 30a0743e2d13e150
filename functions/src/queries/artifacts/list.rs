//! `GET /api/artifacts`: lists the artifacts of a project (S2, "Frontend REST API").

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::artifact::{Artifact, ArtifactKind, ArtifactState, ArtifactSummary};
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::{ProjectAgentId, ProjectId, UserId};
use pilothouse_store::table::Position;
use pilothouse_store::{ArtifactList, Listing, layout};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-list", Verb::Get, "/api/artifacts", |verb| verb.route(list_artifacts))
        .owner()
        .summary("List the artifacts of a project, those that changed last first")
        .query(&["limit", "cursor", "projectId", "workstream", "kind", "agentId", "state"])
        .output::<Page<ArtifactSummary>>(&[200]);

/// The filters of a list.
struct Filter {
    agent: Option<ProjectAgentId>,
    workstream: Option<WorkstreamId>,
    state: Option<ArtifactState>,
    kind: Option<ArtifactKind>,
}

impl Filter {
    fn of(parameters: &Parameters) -> Result<Self, Problem> {
        let workstream = parameters.text("workstream").map(WorkstreamId::parse).transpose();
        Ok(Self {
            agent: parameters.parsed("agentId")?,
            workstream: workstream.map_err(|wrong| Problem::invalid("workstream", wrong))?,
            state: parameters.one_of("state", &ArtifactState::ALL)?,
            kind: parameters.one_of("kind", &ArtifactKind::ALL)?,
        })
    }

    /// The index to read: that of the filter which usually has the fewest artifacts.
    fn list(&self) -> Option<ArtifactList> {
        let agent = self.agent.map(ArtifactList::Agent);
        let workstream = self.workstream.clone().map(ArtifactList::Workstream);
        let kind = self.kind.map(ArtifactList::Kind);
        agent.or(workstream).or(kind).or_else(|| self.state.map(ArtifactList::State))
    }

    fn admits(&self, artifact: &ArtifactSummary) -> bool {
        self.agent.is_none_or(|agent| artifact.created_by.agent() == Some(agent))
            && self.workstream.as_ref().is_none_or(|workstream| artifact.workstream == *workstream)
            && self.kind.is_none_or(|kind| artifact.kind == kind)
            && self.state.is_none_or(|state| artifact.state == state)
    }
}

/// Responds with 200 and a page. An owner with one project may omit `projectId`. With several filters, a page may be short or even empty
/// although more pages follow.
async fn list_artifacts(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<ArtifactSummary>>, Problem> {
    let filter = Filter::of(&parameters)?;
    let project = app.chosen_project(&owner, parameters.parsed("projectId")?).await?.value.id();
    let list = filter.list();
    let partition = match &list {
        Some(list) => list.partition(project),
        None => layout::aggregate_partition(&owner, <Artifact as pilothouse_domain::Aggregate>::KIND),
    };
    let scope = Scope::new("artifacts", partition).filtered_by(
        project,
        &parameters,
        &["workstream", "kind", "agentId", "state"],
    );
    let read = |limit, after| read(&app, (&owner, project), list.as_ref(), limit, after);
    Ok(Json(scope.read(&page, read, |artifact| Some(artifact).filter(|it| filter.admits(it))).await?))
}

async fn read(
    app: &App,
    (owner, project): (&UserId, ProjectId),
    list: Option<&ArtifactList>,
    limit: usize,
    after: Option<Position>,
) -> Result<Listing<ArtifactSummary>, Problem> {
    Ok(match list {
        Some(list) => app.store.artifacts_in(project, list, limit, after).await?,
        None => app.store.artifacts(owner, project, limit, after).await?,
    })
}
