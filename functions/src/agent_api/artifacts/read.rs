//! `GET /api/agent/sessions/{id}/artifacts/{artifactId}`: lets an agent read an artifact (S2, "Security boundaries"; decision 84).

use axum::Json;
use axum::extract::State;
use pilothouse_api::agent::ReadArtifact;
use pilothouse_app::App;
use pilothouse_app::function::requirements::ARTIFACT_READ;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::{Parameters, PathParams};
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_domain::artifact::{Artifact, ArtifactError, ArtifactVersion, ContentSize};
use pilothouse_domain::decision::KnowledgeAccess;
use pilothouse_domain::{ArtifactId, ProjectId};

use crate::agent_api::knowledge::audit::{KnowledgeUse, log_and_count};
use crate::agent_api::knowledge::caller::KnowledgeCaller;
use crate::artifact_content;
use crate::queries::artifacts::version_of;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "agent-read-artifact",
    Verb::Get,
    "/api/agent/sessions/{id}/artifacts/{artifactId}",
    |verb| verb.route(read_artifact),
)
.agent()
.summary("Read an artifact of a readable workstream")
.query(&["version", "offset", "limit"])
.output::<ReadArtifact>(&[200])
.requires(ARTIFACT_READ);

/// Characters of the text in a response.
const DEFAULT_CHARS: usize = 20_000;
const MAX_CHARS: usize = 100_000;

/// Responds with 200, the artifact and a part of its text. `offset` and `limit` count characters; the default is the first 20,000. An
/// artifact of a workstream that the agent may not read is refused with 403 `outside-workstream`. Each call is logged.
async fn read_artifact(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    path: PathParams,
    parameters: Parameters,
) -> Result<Json<ReadArtifact>, Problem> {
    let agent = KnowledgeCaller::load(&app, &caller, id).await?;
    let named: ArtifactId =
        path.get("artifactId").and_then(|text| text.parse().ok()).ok_or_else(Problem::no_artifact)?;
    let offset = parameters.parsed("offset")?.unwrap_or(0);
    let limit = parameters.parsed("limit")?.unwrap_or(DEFAULT_CHARS);
    if !(1..=MAX_CHARS).contains(&limit) {
        return Err(Problem::invalid("limit", format!("must be 1 to {MAX_CHARS}")));
    }
    let version: Option<u32> = parameters.parsed("version")?;
    let artifact = app.store.aggregate::<Artifact>(agent.session.owner_id(), named).await?;
    let artifact = artifact.map(|loaded| loaded.value);
    let artifact = artifact.filter(|artifact| artifact.project_id() == agent.membership.project_id);
    let artifact = artifact.ok_or_else(Problem::no_artifact)?;
    let workstream = artifact.workstream();
    let allowed = agent.scope.may_read(workstream);
    let used = KnowledgeUse::of(KnowledgeAccess::ReadArtifact, Some(workstream), Some(named.to_string()));
    log_and_count(&app, &agent.session, (&used, allowed)).await?;
    if !allowed {
        return Err(ArtifactError::NotReadable { workstream: workstream.clone() }.into());
    }
    let version = match version {
        Some(version) => version_of(&app, &artifact, version).await?,
        None => artifact.latest().clone(),
    };
    let text = text_of(&app, artifact.project_id(), &version).await?;
    Ok(Json(ReadArtifact::of(&artifact, version, text.as_deref(), (offset, limit))))
}

/// The whole text of a version; `None` if it is not text, or too large to be read in parts.
async fn text_of(
    app: &App,
    project: ProjectId,
    version: &ArtifactVersion,
) -> Result<Option<String>, Problem> {
    if version.content.size_bytes.bytes() > ContentSize::MAX_INLINE {
        return Ok(None);
    }
    let bytes = artifact_content::load(app, project, version).await?;
    Ok(String::from_utf8(bytes.into()).ok())
}
