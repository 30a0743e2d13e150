//! The messages of the webhooks queue: an entry of the feed and its receiver.

use pilothouse_app::http::Problem;
use pilothouse_broker::OutgoingMessage;
use pilothouse_domain::{UserId, WebPushSubscriptionId, WebhookId};
use pilothouse_wire::keys::sha256_hex;
use serde::{Deserialize, Serialize};

use super::web_push_delivery::PushRetry;

/// The delivery of an entry of the feed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pointer {
    pub(super) owner_id: UserId,
    #[serde(flatten)]
    pub(super) receiver: Receiver,
    pub(super) sequence: u64,
    /// The state of a delivery to a browser after a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<PushRetry>,
}

/// Who receives an entry of the feed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Receiver {
    #[serde(rename_all = "camelCase")]
    Webhook { webhook_id: WebhookId },
    #[serde(rename_all = "camelCase")]
    Browser { web_push_subscription_id: WebPushSubscriptionId },
    /// The event bus and the topic.
    Bus {},
}

/// The message for the delivery of an entry of the feed.
pub(super) fn message(owner: &UserId, receiver: Receiver, sequence: u64) -> Result<OutgoingMessage, Problem> {
    let pointer = Pointer { owner_id: owner.clone(), receiver, sequence, retry: None };
    let (group, id) = match receiver {
        Receiver::Webhook { webhook_id } => (webhook_id.to_string(), format!("{webhook_id}:{sequence}")),
        Receiver::Browser { web_push_subscription_id: id } => {
            (format!("browser:{id}"), format!("browser:{id}:{sequence}"))
        }
        Receiver::Bus {} => {
            let id = format!("bus:{}", sha256_hex(format!("{owner}\0{sequence}").as_bytes()));
            (id.clone(), id)
        }
    };
    Ok(OutgoingMessage::new(group, id, pointer.body()?))
}

impl Pointer {
    pub(super) fn body(&self) -> Result<String, Problem> {
        serde_json::to_string(self).map_err(Problem::internal)
    }
}
