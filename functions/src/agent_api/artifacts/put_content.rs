//! `PUT /api/agent/sessions/{id}/artifacts/uploads/{sha256}`: receives a large content of an agent's artifact on the embedded server.

use axum::extract::{Request, State};
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::PathParams;
use pilothouse_app::http::{AgentCaller, Problem, Session};

use crate::agent_api::knowledge::audit::count;
use crate::agent_api::knowledge::caller::KnowledgeCaller;
use crate::artifacts::upload::{named_hash, receive};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "agent-put-content",
    Verb::Put,
    "/api/agent/sessions/{id}/artifacts/uploads/{sha256}",
    |verb| verb.route(put_content),
)
.agent()
.summary("Upload a large content of an artifact")
.statuses(&[204])
.requires(EMBEDDED);

/// Responds with 204. The name in the path must be the SHA-256 of the body. In AWS, the content goes to S3 instead.
async fn put_content(
    State(app): State<App>,
    caller: AgentCaller,
    Session(id): Session,
    path: PathParams,
    request: Request,
) -> Result<StatusCode, Problem> {
    let hash = named_hash(&path)?;
    let agent = KnowledgeCaller::load(&app, &caller, id).await?;
    count(&app, &agent.session).await?;
    receive(&app, (agent.membership.project_id, &agent.author()), &hash, request).await?;
    Ok(StatusCode::NO_CONTENT)
}
