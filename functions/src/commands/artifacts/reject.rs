//! `POST /api/artifacts/{id}/reject`: rejects the latest version of an artifact (decision 84).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::artifacts::ArtifactView;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::text::Feedback;
use pilothouse_domain::{Artifact, ArtifactId, DomainContext};
use schemars::JsonSchema;

use super::review;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-reject", Verb::Post, "/api/artifacts/{id}/reject", |verb| {
        verb.route(reject_artifact)
    })
    .owner()
    .summary("Reject the latest version of an artifact")
    .input::<RejectArtifact>()
    .output::<ArtifactView>(&[200]);

/// A rejection.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RejectArtifact {
    /// The version that you have looked at. If there is a newer one, nothing is rejected.
    #[deserr(default)]
    pub version: Option<u32>,
    /// The changes that the next version needs.
    pub reason: Feedback,
}

/// Responds with 200 and the artifact. It counts for the trust of the agent that wrote the version. A version is reviewed once: if it
/// was approved, the response is 409 `artifact-reviewed`.
async fn reject_artifact(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ArtifactId>,
    body: Body<RejectArtifact>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let RejectArtifact { version, reason } = body.input;
    let decide = |artifact: &mut Artifact, ctx: &DomainContext<'_>| {
        Ok(artifact.reject(&command.owner, (version, reason.clone()), ctx)?)
    };
    review(&app, &command, id, decide).await
}
