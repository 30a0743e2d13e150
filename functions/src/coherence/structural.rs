//! Layer 0 (S2, "Structural checks"): reads the entries that the rules compare.

use futures_util::future::{try_join, try_join_all};
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::artifact::{Artifact, ArtifactPath};
use pilothouse_domain::coherence::structural::{CheckedVersion, Evidence, check};
use pilothouse_domain::value::ContentHash;
use pilothouse_domain::{Aggregate as _, ArtifactId, ProjectId, UserId};

use super::Detection;

/// The most entries that are read for a path, and for a content.
const TRACES: usize = 50;

/// Two queries and, for each source, one read, whatever the size of the project.
pub(crate) async fn evidence(
    app: &App,
    (owner, project): (&UserId, ProjectId),
    source_path: Option<&ArtifactPath>,
    content: &ContentHash,
    sources: &[ArtifactId],
) -> Result<Evidence, Problem> {
    let at_path = async {
        match source_path {
            Some(path) => app.store.artifacts_at_path(project, path, TRACES).await,
            None => Ok(Vec::new()),
        }
    };
    let (at_path, with_content) =
        try_join(at_path, app.store.artifacts_with_hash(project, content, TRACES)).await?;
    let sources = sources.iter().map(|id| app.store.aggregate::<Artifact>(owner, *id));
    let sources = try_join_all(sources).await?.into_iter().flatten().map(|loaded| loaded.value);
    let sources = sources.filter(|source| source.project_id() == project);
    let sources = sources.map(|source| (source.id(), source.workstream().clone())).collect();
    Ok(Evidence { at_path, with_content, sources })
}

/// Checks the latest version of an artifact again. Two transactions at the same time do not see each other's versions, but the later of
/// their reactions sees both.
pub(crate) async fn check_again(app: &App, artifact: &Artifact) -> Result<Detection, Problem> {
    let (owner, project) = (artifact.owner_id(), artifact.project_id());
    let latest = artifact.latest();
    let content = &latest.content;
    let source_path = latest.source_path.as_ref();
    let evidence = evidence(app, (owner, project), source_path, &content.content_hash, &[]).await?;
    let version = CheckedVersion {
        project,
        artifact_id: artifact.id(),
        workstream: artifact.workstream(),
        path: artifact.path(),
        source_path,
        author: &latest.author,
        is_empty: content.size_bytes.bytes() == 0,
        stored_at: latest.stored_at,
        tick: latest.tick,
        previous: None,
    };
    Detection::load(app, (owner, project), latest.tick, check(&version, &evidence, None)).await
}
