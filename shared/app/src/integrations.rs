//! Ports to external services: the event bus, the topic, and the endpoints of webhooks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_domain::UserId;
use pilothouse_domain::announcement::{Announcement, Notification};
use pilothouse_domain::webhook::{EgressPolicy, WebhookUrl};

use crate::models::ModelClient;

pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The event bus or the topic did not accept a message. A retry may succeed.
#[derive(Debug, thiserror::Error)]
#[error("failed to publish")]
pub struct PublishError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The event bus for other systems and the topic for people: `EventBridge` and SNS in `aws`. Both deliver at least once; consumers
/// deduplicate announcements by id, and notifications by owner and number.
#[async_trait]
pub trait EventBus: Send + Sync + 'static {
    async fn publish(&self, announcements: &[Announcement]) -> Result<(), PublishError>;

    async fn notify(&self, owner: &UserId, notifications: &[Notification]) -> Result<(), PublishError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRequest {
    pub owner: UserId,
    /// The address of the endpoint. The sender resolves the name and connects only to addresses that `egress_policy` allows.
    pub url: WebhookUrl,
    pub egress_policy: EgressPolicy,
    /// The `webhook-id` header, the same for each attempt.
    pub id: String,
    /// The `webhook-timestamp` header in seconds.
    pub timestamp: i64,
    /// The `webhook-signature` header.
    pub signature: String,
    pub body: String,
}

impl WebhookRequest {
    /// The headers of the request (Standard Webhooks).
    pub fn headers(&self) -> [(&'static str, String); 5] {
        [
            ("content-type", "application/json".to_owned()),
            ("user-agent", "pilothouse-webhooks".to_owned()),
            ("webhook-id", self.id.clone()),
            ("webhook-timestamp", self.timestamp.to_string()),
            ("webhook-signature", self.signature.clone()),
        ]
    }
}

/// Why there is no response from an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryError {
    /// Nothing was sent: the owner, or the server, has too many concurrent deliveries.
    Busy,
    /// The attempt failed for this reason, a sentence.
    Failed(String),
}

/// Sends deliveries to endpoints: one POST request each, within [`REQUEST_TIMEOUT`]. Redirects are not followed.
#[async_trait]
pub trait WebhookSender: Send + Sync + 'static {
    /// Returns the HTTP status of the response.
    async fn deliver(&self, request: &WebhookRequest) -> Result<u16, DeliveryError>;
}

#[derive(Clone, Default)]
pub struct Integrations {
    /// Whether there is an event bus. Otherwise other systems read the event feed.
    pub has_bus: bool,
    /// The event bus, if this function publishes to it.
    pub event_bus: Option<Arc<dyn EventBus>>,
    /// Sends deliveries. None: every attempt fails.
    pub webhook_sender: Option<Arc<dyn WebhookSender>>,
    /// The addresses that webhooks may reach.
    pub egress_policy: EgressPolicy,
    /// Whether the server is configured with a model that reviews coherence issues.
    pub has_model: bool,
    /// The client of that model, in functions that use it.
    pub model: Option<ModelClient>,
}
