//! `GET /api/events?after=`: lists the announcements about an owner's sessions in order of publication. On the embedded
//! server, this feed replaces the event bus of `aws`.

use axum::Json;
use axum::extract::State;
use pilothouse_api::event_feed::AnnouncementPage;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("events-list", Verb::Get, "/api/events", |verb| verb.route(list_announcements))
        .owner()
        .summary("List announcements in order of publication")
        .query(&["limit", "after"])
        .output::<AnnouncementPage>(&[200]);

/// Responds with 200, a page and a cursor. The last page also has a cursor, with which a caller polls for new announcements.
/// Announcements expire after 90 days.
async fn list_announcements(
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
