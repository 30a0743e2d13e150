//! `POST /api/artifacts`: stores a version of an artifact (S2, "Artifact extraction and sandbox teardown").

use axum::extract::State;
use http::StatusCode;
use pilothouse_api::artifacts::ArtifactUploadResult;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::requirements::ARTIFACT_WRITE;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::DomainContext;
use pilothouse_domain::artifact::ArtifactAuthor;
use pilothouse_store::Commit;

use crate::artifacts::input::{Upload, UploadArtifact};
use crate::artifacts::write::{WriteState, Writer};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-upload", Verb::Post, "/api/artifacts", |verb| verb.route(upload_artifact))
        .owner()
        .summary("Store a version of an artifact")
        .input::<UploadArtifact>()
        .output::<ArtifactUploadResult>(&[200, 201])
        .requires(ARTIFACT_WRITE);

/// Responds with 201 and the new version, or with 200 if the same content was stored before. If somebody else has written a version that
/// the caller has not read, the response is 409 `artifact-version-conflict`.
async fn upload_artifact(
    State(app): State<App>,
    command: CommandContext,
    upload: Upload,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&upload.body_hash);
    let project = app.chosen_project(&command.owner, upload.input.project_id).await?.value;
    project.ensure_open()?;
    let author = ArtifactAuthor::Person { id: command.owner.clone() };
    let writer = Writer { owner: &command.owner, project: project.id(), author, scope: None };
    let load = async || writer.load(&app, &upload).await;
    let decide = |state: WriteState, ctx: &mut DomainContext<'_>| {
        let mut commit = Commit::new();
        let place = (&command.owner, project.id());
        let written = state.decide(&app, place, &upload, command.cause(), (&mut commit, ctx))?;
        if !written.is_new {
            return Ok(Decision::Unchanged(CommandResponse::new(StatusCode::OK, None, &written.result)?));
        }
        let response = CommandResponse::new(StatusCode::CREATED, None, &written.result)?;
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(&command, load, decide).await
}
