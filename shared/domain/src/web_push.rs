//! Web Push (decision 98): the browsers of an owner that receive notifications while no page of the console is open.
//!
//! A browser subscribes at the push service of its vendor, and gives the control plane the URL and the keys of the subscription.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::announcement::NotificationKind;
use crate::string_value::string_value;
use crate::text::DeviceName;
use crate::webhook::WebhookUrl;
use crate::{ConsoleLoginId, Timestamp, WebPushSubscriptionId};

/// A browser that receives notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebPushSubscription {
    pub id: WebPushSubscriptionId,
    /// What the owner calls the device.
    pub device: DeviceName,
    /// URL of the push service. The rules for URLs of webhooks apply to it.
    pub endpoint: WebhookUrl,
    pub keys: WebPushKeys,
    /// The kinds of notifications that the browser receives.
    pub kinds: BTreeSet<NotificationKind>,
    pub created_at: Timestamp,
    /// The login of the console in which the browser subscribed. The subscription ends when this login is ended, but not when it
    /// expires (decision 99).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_id: Option<ConsoleLoginId>,
}

/// The keys with which messages for a browser are encrypted (RFC 8291).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebPushKeys {
    pub p256dh: BrowserPublicKey,
    pub auth: BrowserSecret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebPushKey {
    #[error("must be an uncompressed point of the curve P-256 in base64url without padding")]
    PublicKey,
    #[error("must be 16 bytes in base64url without padding")]
    Secret,
}

/// The browser's public key, as `PushSubscription.toJSON()` writes it: an uncompressed point, 65 bytes of which the first is 4. Whether
/// the point is on the curve is checked where it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BrowserPublicKey(String);

/// Whether a text consists of the characters of base64url.
fn is_base64url(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

impl BrowserPublicKey {
    /// The length of 65 bytes in base64url.
    const LENGTH: usize = 87;
    /// The first six bits of a point that is not compressed.
    const UNCOMPRESSED: char = 'B';

    fn parse(text: String) -> Result<Self, InvalidWebPushKey> {
        let fits = text.len() == Self::LENGTH && text.starts_with(Self::UNCOMPRESSED) && is_base64url(&text);
        if fits { Ok(Self(text)) } else { Err(InvalidWebPushKey::PublicKey) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

string_value!(BrowserPublicKey.0, InvalidWebPushKey, Self::parse, {
    "type": "string", "minLength": 87, "maxLength": 87
});

/// The secret that the browser shares with the control plane, as `PushSubscription.toJSON()` writes it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BrowserSecret(String);

impl BrowserSecret {
    /// The length of 16 bytes in base64url.
    const LENGTH: usize = 22;

    fn parse(text: String) -> Result<Self, InvalidWebPushKey> {
        if text.len() == Self::LENGTH && is_base64url(&text) {
            Ok(Self(text))
        } else {
            Err(InvalidWebPushKey::Secret)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

string_value!(BrowserSecret.0, InvalidWebPushKey, Self::parse, {
    "type": "string", "minLength": 22, "maxLength": 22
});

impl std::fmt::Debug for BrowserSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BrowserSecret(…)")
    }
}

/// All subscriptions of an owner. They are stored in one item, so that a notification costs one read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebPushSubscriptions {
    items: Vec<WebPushSubscription>,
}

/// The effect of [`WebPushSubscriptions::subscribe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subscribed {
    Added,
    /// The browser had a subscription with this endpoint. Its device, keys, kinds and login are replaced; its id stays.
    Replaced,
    /// The browser had this subscription.
    Unchanged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "is one too many: an owner has at most {} devices that receive notifications; remove one first",
    WebPushSubscriptions::MAX
)]
pub struct TooManySubscriptions;

impl WebPushSubscriptions {
    pub const MAX: usize = 20;

    /// Oldest first.
    pub fn items(&self) -> &[WebPushSubscription] {
        &self.items
    }

    pub fn get(&self, id: WebPushSubscriptionId) -> Option<&WebPushSubscription> {
        self.items.iter().find(|known| known.id == id)
    }

    /// Adds a subscription, or replaces the one with the same endpoint. Returns the stored one.
    pub fn subscribe(
        &mut self,
        mut subscription: WebPushSubscription,
    ) -> Result<(Subscribed, WebPushSubscription), TooManySubscriptions> {
        if let Some(known) = self.items.iter_mut().find(|known| known.endpoint == subscription.endpoint) {
            subscription.id = known.id;
            subscription.created_at = known.created_at;
            if *known == subscription {
                return Ok((Subscribed::Unchanged, subscription));
            }
            known.clone_from(&subscription);
            return Ok((Subscribed::Replaced, subscription));
        }
        if self.items.len() >= Self::MAX {
            return Err(TooManySubscriptions);
        }
        self.items.push(subscription.clone());
        Ok((Subscribed::Added, subscription))
    }

    /// Removes a subscription. Returns whether it existed.
    pub fn remove(&mut self, id: WebPushSubscriptionId) -> bool {
        let before = self.items.len();
        self.items.retain(|known| known.id != id);
        self.items.len() < before
    }

    /// Removes the subscriptions of a browser that is logged out. Returns whether there were any.
    pub fn remove_of_login(&mut self, login: ConsoleLoginId) -> bool {
        let before = self.items.len();
        self.items.retain(|known| known.login_id != Some(login));
        self.items.len() < before
    }

    /// The subscriptions that receive notifications of this kind.
    pub fn receivers(&self, kind: NotificationKind) -> impl Iterator<Item = WebPushSubscriptionId> {
        self.items.iter().filter(move |known| known.kinds.contains(&kind)).map(|known| known.id)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn subscription(number: u128, endpoint: &str) -> WebPushSubscription {
        WebPushSubscription {
            id: WebPushSubscriptionId::new(Uuid::from_u128(number)),
            device: DeviceName::try_from("Phone".to_owned()).unwrap(),
            endpoint: WebhookUrl::parse(endpoint).unwrap(),
            keys: WebPushKeys {
                p256dh: BrowserPublicKey::parse(format!("B{}", "A".repeat(86))).unwrap(),
                auth: BrowserSecret::parse("A".repeat(22)).unwrap(),
            },
            kinds: NotificationKind::PUSHED_BY_DEFAULT.into(),
            created_at: Timestamp::from_millis(1),
            login_id: None,
        }
    }

    #[test]
    fn browser_that_subscribes_again_keeps_its_id() {
        let mut all = WebPushSubscriptions::default();
        all.subscribe(subscription(1, "https://push.example/a")).unwrap();
        let again = WebPushSubscription {
            kinds: BTreeSet::from([NotificationKind::SessionFailed]),
            ..subscription(2, "https://push.example/a")
        };
        let (effect, stored) = all.subscribe(again).unwrap();
        assert_eq!((effect, stored.id), (Subscribed::Replaced, subscription(1, "https://x.example").id));
        assert_eq!(all.items(), std::slice::from_ref(&stored));
        assert_eq!(all.subscribe(stored.clone()), Ok((Subscribed::Unchanged, stored)));
    }

    #[test]
    fn one_device_too_many_is_refused_and_changes_nothing() {
        let mut all = WebPushSubscriptions::default();
        for number in 0..WebPushSubscriptions::MAX as u128 {
            all.subscribe(subscription(number, &format!("https://push.example/{number}"))).unwrap();
        }
        let before = all.clone();
        assert_eq!(all.subscribe(subscription(99, "https://push.example/99")), Err(TooManySubscriptions));
        assert_eq!(all, before);
        assert!(all.subscribe(subscription(99, "https://push.example/3")).is_ok(), "a known browser may");
        assert!(all.remove(subscription(0, "https://x.example").id));
        assert!(!all.remove(subscription(0, "https://x.example").id));
        assert!(all.subscribe(subscription(99, "https://push.example/99")).is_ok());
    }

    #[test]
    fn device_receives_only_the_kinds_that_it_asked_for() {
        let mut all = WebPushSubscriptions::default();
        let failures = WebPushSubscription {
            kinds: BTreeSet::from([NotificationKind::SessionFailed]),
            ..subscription(1, "https://push.example/a")
        };
        all.subscribe(failures).unwrap();
        all.subscribe(subscription(2, "https://push.example/b")).unwrap();
        let receivers = |kind| all.receivers(kind).count();
        assert_eq!(receivers(NotificationKind::SessionFailed), 2);
        assert_eq!(receivers(NotificationKind::WaitingForInput), 1);
        assert_eq!(receivers(NotificationKind::BudgetWarning), 0, "nobody has to act on it");
    }

    #[test]
    fn subscriptions_end_with_the_login_of_their_browser() {
        let login = |number| ConsoleLoginId::new(Uuid::from_u128(number));
        let mut all = WebPushSubscriptions::default();
        all.subscribe(subscription(1, "https://push.example/a")).unwrap();
        for number in [2, 3] {
            let endpoint = format!("https://push.example/{number}");
            let of_login =
                WebPushSubscription { login_id: Some(login(number)), ..subscription(number, &endpoint) };
            all.subscribe(of_login).unwrap();
        }
        assert!(all.remove_of_login(login(2)) && !all.remove_of_login(login(2)));
        let kept: Vec<_> = all.items().iter().map(|known| known.login_id).collect();
        assert_eq!(kept, [None, Some(login(3))]);
    }

    #[test]
    fn keys_of_another_form_are_refused() {
        let public = |text: String| BrowserPublicKey::parse(text).map(drop);
        assert_eq!(public(format!("B{}", "A".repeat(86))), Ok(()));
        assert_eq!(public(format!("B{}", "A".repeat(85))), Err(InvalidWebPushKey::PublicKey));
        assert_eq!(
            public(format!("A{}", "A".repeat(86))),
            Err(InvalidWebPushKey::PublicKey),
            "it is compressed"
        );
        assert_eq!(public(format!("B{}=", "A".repeat(85))), Err(InvalidWebPushKey::PublicKey));
        assert_eq!(BrowserSecret::parse("A".repeat(21)), Err(InvalidWebPushKey::Secret));
    }
}
