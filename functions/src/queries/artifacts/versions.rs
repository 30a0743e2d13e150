//! `GET /api/artifacts/{id}/versions`: lists the versions of an artifact (decision 84).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE, Verb};
use pilothouse_app::http::{Id, Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::ArtifactId;
use pilothouse_domain::artifact::{Artifact, ArtifactVersion, VersionRecord};
use pilothouse_store::layout;
use pilothouse_store::table::Position;

use super::artifact_of;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-versions", Verb::Get, "/api/artifacts/{id}/versions", |verb| {
        verb.route(list_versions)
    })
    .owner()
    .summary("List the versions of an artifact, latest first")
    .query(PAGE)
    .output::<Page<ArtifactVersion>>(&[200]);

/// Responds with 200 and a page.
async fn list_versions(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ArtifactId>,
    page: PageRequest,
) -> Result<Json<Page<ArtifactVersion>>, Problem> {
    artifact_of(&app, &owner, id).await?;
    let partition = layout::aggregate_journal_partition::<Artifact>(id);
    let scope = Scope::of_table("artifact-versions", partition.clone());
    let before = scope.decode(&page)?.map(|position| position.sort);
    let records: Vec<VersionRecord> = app
        .store
        .archived_parts::<Artifact, _>(id, VersionRecord::GROUP, before.as_deref(), page.limit)
        .await?;
    let items: Vec<_> = records.into_iter().map(|record| record.version).collect();
    // Versions have no gaps, so that the last one is version 1.
    let last = items.last().filter(|last| items.len() == page.limit && last.version > 1);
    let next_cursor = last.map(|last| {
        let sort = VersionRecord::id(last.version);
        scope.encode(&Position { partition, sort, index_sort: None })
    });
    Ok(Json(Page { items, next_cursor }))
}
