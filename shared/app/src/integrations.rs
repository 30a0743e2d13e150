//! Ports to external services: the event bus, the topic, and the endpoints of webhooks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_domain::UserId;
use pilothouse_domain::announcement::{Announcement, Notification};
use pilothouse_domain::webhook::{EgressPolicy, WebhookUrl};

use crate::models::{EmbeddingClient, ModelClient};

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

/// A POST request to an endpoint: a webhook of an owner, or the push service of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRequest {
    pub owner: UserId,
    /// The address of the endpoint. The sender resolves the name and connects only to addresses that `egress_policy` allows.
    pub url: WebhookUrl,
    pub egress_policy: EgressPolicy,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
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
pub trait DeliverySender: Send + Sync + 'static {
    /// Returns the HTTP status of the response.
    async fn deliver(&self, request: &DeliveryRequest) -> Result<u16, DeliveryError>;
}

#[derive(Clone, Default)]
pub struct Integrations {
    /// Whether there is an event bus. Otherwise other systems read the event feed.
    pub has_bus: bool,
    /// The event bus, if this function publishes to it.
    pub event_bus: Option<Arc<dyn EventBus>>,
    /// Sends deliveries. None: every attempt fails.
    pub delivery_sender: Option<Arc<dyn DeliverySender>>,
    /// The addresses that webhooks and push services may have.
    pub egress_policy: EgressPolicy,
    /// The operator's contact for push services: a `mailto:` or `https:` URL.
    pub web_push_contact: Option<String>,
    /// Whether the server is configured with a model that reviews coherence issues.
    pub has_model: bool,
    /// The client of that model, in functions that use it.
    pub model: Option<ModelClient>,
    /// Whether the server is configured with an embedding model. Otherwise the lexical engine compares texts.
    pub has_embeddings: bool,
    /// The client of that model, in functions that use it.
    pub embeddings: Option<EmbeddingClient>,
}
