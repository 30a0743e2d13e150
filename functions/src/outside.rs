//! What the control plane tells the world outside of it: ports to a bus, a topic, and the endpoints of owners.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_domain::announcement::{Announcement, Notification};
use pilothouse_domain::webhook::{Reach, WebhookUrl};

/// How long an endpoint may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The bus or the topic did not take something. Trying again may work.
#[derive(Debug, thiserror::Error)]
#[error("what was to be told outside was not taken")]
pub struct NotTold(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// A bus that other systems listen to, and a topic for people: `EventBridge` and SNS in `aws`. Both are told at least
/// once; an announcement is known by its id, a notification by its owner and number.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Publishes announcements.
    async fn publish(&self, announcements: &[Announcement]) -> Result<(), NotTold>;

    /// Publishes notifications of `owner`.
    async fn notify(
        &self,
        owner: &pilothouse_domain::UserId,
        notifications: &[Notification],
    ) -> Result<(), NotTold>;
}

/// A delivery as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// Where to. Whoever sends it resolves the name, and sends nothing to an address that `reach` does not admit.
    pub url: WebhookUrl,
    /// How far it may lead.
    pub reach: Reach,
    /// `webhook-id`: the same at each attempt.
    pub id: String,
    /// `webhook-timestamp`: seconds.
    pub timestamp: i64,
    /// `webhook-signature`.
    pub signature: String,
    /// The body: JSON.
    pub body: String,
}

impl Parcel {
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

/// Brings deliveries to endpoints: one POST each, within [`PATIENCE`]. Redirects are not followed.
#[async_trait]
pub trait Courier: Send + Sync + 'static {
    /// The HTTP status that the endpoint answered, or a sentence that says why there is none.
    async fn deliver(&self, parcel: &Parcel) -> Result<u16, String>;
}

/// The ways outside that a profile has.
#[derive(Clone, Default)]
pub struct Outside {
    /// Whether there is a bus; if not, others read the feed.
    pub has_bus: bool,
    /// The bus, for who publishes on it.
    pub bus: Option<Arc<dyn Bus>>,
    /// Who brings deliveries; none: nobody, and each attempt fails.
    pub courier: Option<Arc<dyn Courier>>,
    /// How far webhooks may lead.
    pub reach: Reach,
}
