//! Queries on artifacts (S2, "Knowledge Store"; decision 84).

pub mod content;
pub mod diff;
pub mod get;
pub mod list;
pub mod version_content;
pub mod versions;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::http::request::PathParams;
use pilothouse_domain::artifact::{Artifact, ArtifactVersion, VersionRecord};
use pilothouse_domain::{ArtifactId, UserId};
use pilothouse_store::LoadedAggregate;

/// Another owner's artifact costs the same read as a missing one.
async fn artifact_of(
    app: &App,
    owner: &UserId,
    id: ArtifactId,
) -> Result<LoadedAggregate<Artifact>, Problem> {
    app.store.aggregate::<Artifact>(owner, id).await?.ok_or_else(Problem::no_artifact)
}

/// A version of an artifact. The caller has checked the owner.
pub(crate) async fn version_of(
    app: &App,
    artifact: &Artifact,
    version: u32,
) -> Result<ArtifactVersion, Problem> {
    if version == artifact.latest().version {
        return Ok(artifact.latest().clone());
    }
    let (id, part) = (artifact.id(), VersionRecord::id(version));
    let record = app.store.archived_part::<Artifact, VersionRecord>(id, VersionRecord::GROUP, &part).await?;
    record.map(|record| record.version).ok_or_else(no_version)
}

fn no_version() -> Problem {
    Problem::NotFound("the artifact has no such version".to_owned())
}

/// The `{version}` in the path.
fn named_version(path: &PathParams) -> Result<u32, Problem> {
    path.get("version").and_then(|text| text.parse().ok()).ok_or_else(no_version)
}
