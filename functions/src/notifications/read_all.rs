//! `POST /api/notifications/read`: an owner has read everything (ruling 37).

use axum::Json;
use axum::extract::State;
use pilothouse_store::CommitError;

use super::read::mark;
use crate::api::telling::ReadNotifications;
use crate::app::App;
use crate::edge::input::NoBody;
use crate::edge::{Owner, Problem};

/// Notifications that one request marks, at most.
const MARKED: usize = 200;

/// 200 with how many were marked.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    _: NoBody,
) -> Result<Json<ReadNotifications>, Problem> {
    let listing = app.store.unread(&owner, MARKED, None).await?;
    let mut read = 0;
    for loaded in listing.items {
        match mark(&app, &owner, loaded).await {
            Ok(_) => read += 1,
            // It was read meanwhile: the index lags.
            Err(CommitError::Conflict) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(Json(ReadNotifications { read, more: listing.next.is_some() }))
}
