//! Webhooks of an owner in the API.

use pilothouse_domain::webhook::Webhook;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The response to registering a webhook.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredWebhook {
    /// The new webhook.
    pub webhook: Webhook,
    /// The key that signs deliveries. It is shown only once.
    #[serde(default)]
    pub secret: String,
}

/// All webhooks of an owner.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhooksView {
    /// The webhooks.
    pub items: Vec<Webhook>,
}
