//! `GET /api/webhooks`: the endpoints of an owner.

use axum::Json;
use axum::extract::State;

use crate::api::telling::WebhooksView;
use crate::app::App;
use crate::edge::{Owner, Problem};

/// 200 with all of them, oldest first, without their secrets.
pub async fn handle(State(app): State<App>, Owner(owner): Owner) -> Result<Json<WebhooksView>, Problem> {
    Ok(Json(WebhooksView { items: app.store.webhooks(&owner).await? }))
}
