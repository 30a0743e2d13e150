//! `GET /api/artifacts/{id}/diff`: compares two versions of an artifact (decision 84).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use pilothouse_api::artifacts::ArtifactDiff;
use pilothouse_app::App;
use pilothouse_app::function::requirements::ARTIFACT_CONTENT;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::ArtifactId;
use pilothouse_domain::artifact::{Artifact, ArtifactVersion};
use similar::{ChangeTag, TextDiff};

use super::{artifact_of, version_of};
use crate::artifact_content;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-diff", Verb::Get, "/api/artifacts/{id}/diff", |verb| {
        verb.route(compare_versions)
    })
    .owner()
    .summary("Compare two versions of an artifact")
    .query(&["from", "to"])
    .output::<ArtifactDiff>(&[200])
    .requires(ARTIFACT_CONTENT);

/// Most bytes of a version that is compared.
const MAX_BYTES: u64 = 500_000;
/// After this time, the differences that remain are not minimized.
const MINIMIZE_FOR: Duration = Duration::from_secs(2);
/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// Responds with 200 and the differences. `to` is the latest version by default, and `from` the one before it. Versions that are not
/// text, or too large, are violations.
async fn compare_versions(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ArtifactId>,
    parameters: Parameters,
) -> Result<Json<ArtifactDiff>, Problem> {
    let artifact = artifact_of(&app, &owner, id).await?.value;
    let to = parameters.parsed("to")?.unwrap_or(artifact.latest().version);
    let from = parameters.parsed("from")?.unwrap_or(to.saturating_sub(1).max(1));
    let (from, to) = (version_of(&app, &artifact, from).await?, version_of(&app, &artifact, to).await?);
    let before = text_of(&app, &artifact, &from, "from").await?;
    let after = text_of(&app, &artifact, &to, "to").await?;
    let diff = move || {
        let diff = TextDiff::configure().timeout(MINIMIZE_FOR).diff_lines(&before, &after);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let (from_name, to_name) = (format!("version {}", from.version), format!("version {}", to.version));
        let mut unified = diff.unified_diff();
        let unified = unified.context_radius(CONTEXT_LINES).header(&from_name, &to_name).to_string();
        ArtifactDiff {
            from: from.version,
            to: to.version,
            unified,
            added_lines: count(ChangeTag::Insert),
            removed_lines: count(ChangeTag::Delete),
        }
    };
    Ok(Json(tokio::task::spawn_blocking(diff).await.map_err(Problem::internal)?))
}

async fn text_of(
    app: &App,
    artifact: &Artifact,
    version: &ArtifactVersion,
    field: &str,
) -> Result<String, Problem> {
    if version.content.size_bytes.bytes() > MAX_BYTES {
        return Err(Problem::invalid(field, format!("is a version of more than {MAX_BYTES} bytes")));
    }
    let bytes = artifact_content::load(app, artifact.project_id(), version).await?;
    String::from_utf8(bytes.into()).map_err(|_| Problem::invalid(field, "is a version that is not text"))
}
