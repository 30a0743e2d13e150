//! Commands on artifacts (S2, "Knowledge Store"; decision 84).

pub mod approve;
pub mod prepare_upload;
pub mod put_content;
pub mod reject;
pub mod upload;

use pilothouse_api::artifacts::ArtifactView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::artifact::{Artifact, ArtifactEvent};
use pilothouse_domain::{ArtifactId, DomainContext};
use pilothouse_store::{Commit, LoadedAggregate};

/// Loads an artifact, reviews it, and commits the review.
async fn review(
    app: &App,
    command: &CommandContext,
    id: ArtifactId,
    review: impl Fn(&mut Artifact, &DomainContext<'_>) -> Result<Vec<ArtifactEvent>, Problem>,
) -> Result<CommandResponse, Problem> {
    let load = async || {
        let artifact = app.store.aggregate::<Artifact>(&command.owner, id).await?;
        artifact.ok_or_else(Problem::no_artifact)
    };
    let decide = |mut loaded: LoadedAggregate<Artifact>, ctx: &mut DomainContext<'_>| {
        command.check_version(loaded.version)?;
        let before = loaded.value.clone();
        let events = review(&mut loaded.value, ctx)?;
        let show = |version| CommandResponse::ok(version, &ArtifactView::of(&loaded.value, version));
        if events.is_empty() {
            return Ok(Decision::Unchanged(show(loaded.version)?));
        }
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &loaded, command.cause(), events)?;
        commit.artifact_entries(Some(&before), &loaded.value)?;
        let response = show(loaded.next_version())?;
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(command, load, decide).await
}
