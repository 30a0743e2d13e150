//! Webhooks: endpoints of owners that are told of events, signed as Standard Webhooks says (ruling 37).
//!
//! The secret of a webhook is derived from its id (ruling 8): it is shown when the webhook is registered and stands nowhere.

pub mod deliver;
pub mod deliveries;
pub mod enable;
pub mod list;
pub mod register;
pub mod remove;

use pilothouse_domain::webhook::Webhook;
use pilothouse_domain::{UserId, WebhookId};
use pilothouse_store::Loaded;

use crate::app::App;
use crate::edge::Problem;

/// How often a lost race is run again.
const TRIES: u32 = 12;

async fn webhook_of(app: &App, owner: &UserId, id: WebhookId) -> Result<Loaded<Webhook>, Problem> {
    let webhook = app.store.webhook(owner, id).await?;
    webhook.ok_or_else(|| Problem::NotFound("there is no such webhook".to_owned()))
}
