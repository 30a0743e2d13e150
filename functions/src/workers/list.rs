//! `GET /api/workers`: the owner's workers, by name.

use axum::Json;
use axum::extract::State;
use pilothouse_store::{cursor, layout};

use super::Dispatch;
use crate::api::Page;
use crate::api::workers::WorkerView;
use crate::app::App;
use crate::edge::{Owner, PageRequest, Problem};

/// 200 with a page.
pub async fn handle(
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
    let dispatch = Dispatch::of(&app);
    let items =
        listing.items.iter().map(|worker| WorkerView::of(&worker.value, dispatch.is_alive(&worker.value)));
    Ok(Json(Page { items: items.collect(), next_cursor: listing.next.map(|at| scope.encode(&at)) }))
}
