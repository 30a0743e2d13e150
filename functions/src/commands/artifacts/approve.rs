//! `POST /api/artifacts/{id}/approve`: approves the latest version of an artifact (decision 84).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::artifacts::ArtifactView;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::ArtifactId;
use schemars::JsonSchema;

use super::review;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-approve", Verb::Post, "/api/artifacts/{id}/approve", |verb| {
        verb.route(approve_artifact)
    })
    .owner()
    .summary("Approve the latest version of an artifact")
    .input::<ApproveArtifact>()
    .output::<ArtifactView>(&[200]);

/// An approval.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApproveArtifact {
    /// The version that you have looked at. If there is a newer one, nothing is approved.
    #[deserr(default)]
    pub version: Option<u32>,
}

/// Responds with 200 and the artifact. It counts for the trust of the agent that wrote the version. A version is reviewed once: if it
/// was rejected, the response is 409 `artifact-reviewed`.
async fn approve_artifact(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ArtifactId>,
    body: Body<ApproveArtifact>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let seen = body.input.version;
    review(&app, &command, id, |artifact, ctx| Ok(artifact.approve(&command.owner, seen, ctx)?)).await
}
