//! `GET /api/workers`: lists the owner's workers by name.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::workers::WorkerView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, PAGE, Verb};
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::placement::WorkerAssigner;
use pilothouse_app::record_views;
use pilothouse_store::{cursor, layout};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("workers-list", Verb::Get, "/api/workers", |verb| verb.route(list_workers))
        .owner()
        .summary("List workers by name")
        .query(PAGE)
        .output::<Page<WorkerView>>(&[200]);

/// Responds with 200 and a page.
async fn list_workers(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
) -> Result<Json<Page<WorkerView>>, Problem> {
    app.fleet()?;
    let partition = layout::workers_partition(&owner);
    let scope = cursor::Scope { list: "workers", index: None, partition: &partition };
    let after = page.cursor.as_deref().map(|text| scope.decode(text)).transpose();
    let after = after.map_err(|error| Problem::invalid("cursor", format!("is {error}")))?;
    let listing = app.store.workers(&owner, page.limit, after).await?;
    let assigner = WorkerAssigner::of(&app);
    let items = listing
        .items
        .iter()
        .map(|worker| record_views::worker(&worker.value, assigner.is_alive(&worker.value)));
    Ok(Json(Page { items: items.collect(), next_cursor: listing.next.map(|at| scope.encode(&at)) }))
}
