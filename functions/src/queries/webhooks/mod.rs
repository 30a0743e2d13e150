//! Queries on webhooks and their deliveries.

pub mod deliveries;
pub mod list;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::webhook::Webhook;
use pilothouse_domain::{UserId, WebhookId};
use pilothouse_store::Loaded;

/// Loads a webhook of the owner. Fails with "not found" when the owner has no such webhook.
pub(crate) async fn webhook_of(app: &App, owner: &UserId, id: WebhookId) -> Result<Loaded<Webhook>, Problem> {
    let webhook = app.store.webhook(owner, id).await?;
    webhook.ok_or_else(|| Problem::NotFound("there is no such webhook".to_owned()))
}
