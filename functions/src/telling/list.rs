//! `GET /api/events?after=`: what other contexts are told of an owner's sessions, in the order in which it was told. On the
//! embedded server this stands where the bus stands in `aws`.

use axum::Json;
use axum::extract::State;

use crate::api::telling::AnnouncementPage;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};

/// 200 with a page and a cursor, also at the end: who waits for more asks again with it. Announcements expire after 90 days.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<AnnouncementPage>, Problem> {
    let after: u64 = parameters
        .parsed("after")
        .map_err(|_| Problem::invalid("after", "is not a cursor of this feed"))?
        .unwrap_or(0);
    let listing = app.store.announcements(&owner, after, page.limit).await?;
    let cursor = listing.items.last().map_or(after, |last| last.sequence).to_string();
    let more = listing.next.is_some();
    Ok(Json(AnnouncementPage { items: listing.items, cursor, more }))
}
