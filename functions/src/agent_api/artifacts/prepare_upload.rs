//! `POST /api/agent/sessions/{id}/artifacts/uploads`: returns an address for a large content of an agent's artifact (decision 84).

use axum::Json;
use axum::extract::State;
use pilothouse_api::artifacts::ArtifactUploadLink;
use pilothouse_app::App;
use pilothouse_app::function::requirements::ARTIFACT_WRITE;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem, Session};

use crate::agent_api::knowledge::audit::count;
use crate::agent_api::knowledge::caller::KnowledgeCaller;
use crate::artifacts::upload::{PrepareUpload, prepare};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "agent-prepare-upload",
    Verb::Post,
    "/api/agent/sessions/{id}/artifacts/uploads",
    |verb| verb.route(prepare_upload),
)
.agent()
.summary("Get an address for a large content of an artifact")
.input::<PrepareUpload>()
.output::<ArtifactUploadLink>(&[200])
.requires(ARTIFACT_WRITE);

/// Responds with 200 and the address. It accepts only the content with this hash, for 15 minutes. Reporting the artifact with
/// `contentHash` and `sizeBytes` then completes the upload.
async fn prepare_upload(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<PrepareUpload>,
) -> Result<Json<ArtifactUploadLink>, Problem> {
    let agent = KnowledgeCaller::load(&app, &caller, id).await?;
    let input = body.input;
    let project = agent.membership.project_id;
    if input.project_id.is_some_and(|named| named != project) {
        return Err(Problem::invalid("projectId", "is not the project of the session"));
    }
    count(&app, &agent.session).await?;
    let own = format!("/api/agent/sessions/{id}/artifacts/uploads/{}", input.content_hash);
    Ok(Json(prepare(&app, (project, &agent.author()), &input, own).await?))
}
