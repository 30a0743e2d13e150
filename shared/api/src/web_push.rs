//! Web Push in the API (decision 98).

use std::collections::BTreeSet;

use pilothouse_domain::announcement::NotificationKind;
use pilothouse_domain::text::DeviceName;
use pilothouse_domain::web_push::WebPushSubscription;
use pilothouse_domain::webhook::Host;
use pilothouse_domain::{Timestamp, WebPushSubscriptionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A browser that receives notifications, without its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebPushSubscriptionView {
    /// Names the subscription in requests.
    pub id: WebPushSubscriptionId,
    /// What the owner calls the device.
    pub device: DeviceName,
    /// The host of the push service.
    pub service: String,
    /// The kinds of notifications that the browser receives.
    pub kinds: BTreeSet<NotificationKind>,
    /// When the browser subscribed first.
    pub created_at: Timestamp,
}

impl From<&WebPushSubscription> for WebPushSubscriptionView {
    fn from(subscription: &WebPushSubscription) -> Self {
        Self {
            id: subscription.id,
            device: subscription.device.clone(),
            service: match subscription.endpoint.host() {
                Host::Name(name) => name.clone(),
                Host::Address(address) => address.to_string(),
            },
            kinds: subscription.kinds.clone(),
            created_at: subscription.created_at,
        }
    }
}

/// All browsers of an owner that receive notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebPushSubscriptionsView {
    /// The subscriptions, oldest first.
    pub items: Vec<WebPushSubscriptionView>,
}

/// The key by which push services recognise this control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebPushKeyView {
    /// `applicationServerKey` of `PushManager.subscribe`: an uncompressed point of the curve P-256 in base64url without padding.
    pub public_key: String,
}
