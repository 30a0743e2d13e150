//! Messages to the push services of browsers: encrypted for the browser (RFC 8291), and signed with the key of this control plane
//! (RFC 8292, VAPID).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use p256::pkcs8::EncodePrivateKey as _;
use p256::{PublicKey, SecretKey};
use pilothouse_domain::announcement::Notification;
use pilothouse_domain::text::cut;
use pilothouse_domain::web_push::{
    BrowserPublicKey, BrowserSecret, InvalidWebPushKey, WebPushSubscription, WebPushSubscriptions,
};
use pilothouse_domain::webhook::WebhookUrl;
use pilothouse_domain::{DomainContext, Timestamp, UserId};
use pilothouse_store::{Commit, Loaded};
use pilothouse_wire::keys::RootSecret;
use serde_json::json;

use crate::App;
use crate::integrations::{DeliveryRequest, Integrations};
use crate::problem::Problem;
use crate::unit_of_work::{Decision, RetryPolicy};

/// How long a push service keeps a message for a device that is off, in seconds.
const KEPT: u64 = 24 * 60 * 60;
/// How long a signature is valid, in seconds. RFC 8292 allows a day.
const SIGNED: i64 = 12 * 60 * 60;
/// The largest text of a message, in characters. Each takes at most 6 bytes in JSON, and push services accept 4,096 bytes in all.
const MAX_TEXT: usize = 600;

#[derive(Debug, thiserror::Error)]
pub enum WebPushError {
    #[error("the secret gives no key for push services")]
    NoKey,
    #[error("failed to encode the key for push services: {0}")]
    Encoding(#[from] p256::pkcs8::Error),
    #[error("failed to sign a message for a push service: {0}")]
    Signing(#[from] jsonwebtoken::errors::Error),
    #[error(transparent)]
    BrowserKey(#[from] InvalidWebPushKey),
    #[error("failed to encrypt a message for a browser: {0}")]
    Encryption(String),
}

/// The key by which push services recognise this control plane. It is derived from the root secret (decision 8).
pub struct WebPushKey(SecretKey);

impl WebPushKey {
    pub fn of(secret: &RootSecret) -> Result<Self, WebPushError> {
        let candidates = (0..=u8::MAX).map(|attempt| secret.web_push_scalar(attempt));
        let mut keys = candidates.filter_map(|scalar| SecretKey::from_slice(&scalar).ok());
        keys.next().map(Self).ok_or(WebPushError::NoKey)
    }

    /// `applicationServerKey` of `PushManager.subscribe`.
    pub fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.public_key().to_encoded_point(false))
    }

    /// The header `authorization` of a message to `endpoint`.
    fn authorization(
        &self,
        endpoint: &WebhookUrl,
        contact: Option<&str>,
        now: Timestamp,
    ) -> Result<String, WebPushError> {
        let mut claims = json!({ "aud": endpoint.origin(), "exp": now.as_secs() + SIGNED });
        if let Some(contact) = contact {
            claims["sub"] = contact.into();
        }
        let key = EncodingKey::from_ec_der(self.0.to_pkcs8_der()?.as_bytes());
        let token = jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &key)?;
        Ok(format!("vapid t={token}, k={}", self.public_key()))
    }
}

impl App {
    /// Changes the subscriptions of an owner by a function that returns whether it changed them. Returns the same.
    pub async fn change_web_push_subscriptions(
        &self,
        owner: &UserId,
        mut change: impl FnMut(&mut WebPushSubscriptions) -> bool,
    ) -> Result<bool, Problem> {
        let load = async || self.store.web_push_subscriptions(owner).await.map_err(Problem::from);
        let decide = |mut known: Loaded<WebPushSubscriptions>, _: &mut DomainContext<'_>| {
            if !change(&mut known.value) {
                return Ok(Decision::Unchanged(false));
            }
            let mut commit = Commit::new();
            commit.web_push_subscriptions(owner, &known)?;
            Ok(Decision::Commit(commit, true))
        };
        self.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
    }
}

/// Fails if the key is not a point of the curve.
pub fn check_public_key(key: &BrowserPublicKey) -> Result<(), InvalidWebPushKey> {
    point(key).map(|_| ())
}

/// Fails if the secret does not have 16 bytes.
pub fn check_secret(secret: &BrowserSecret) -> Result<(), InvalidWebPushKey> {
    auth(secret).map(|_| ())
}

fn point(key: &BrowserPublicKey) -> Result<PublicKey, InvalidWebPushKey> {
    let bytes = URL_SAFE_NO_PAD.decode(key.as_str()).map_err(|_| InvalidWebPushKey::PublicKey)?;
    PublicKey::from_sec1_bytes(&bytes).map_err(|_| InvalidWebPushKey::PublicKey)
}

fn auth(secret: &BrowserSecret) -> Result<web_push_native::Auth, InvalidWebPushKey> {
    let bytes = URL_SAFE_NO_PAD.decode(secret.as_str()).map_err(|_| InvalidWebPushKey::Secret)?;
    <[u8; 16]>::try_from(bytes).map(Into::into).map_err(|_| InvalidWebPushKey::Secret)
}

/// The request that delivers a notification to a browser. A push service replaces a message about a session that it has not
/// delivered yet by the next one, because the last one tells how the session is.
pub fn request(
    owner: &UserId,
    subscription: &WebPushSubscription,
    notification: &Notification,
    secret: &RootSecret,
    integrations: &Integrations,
    now: Timestamp,
) -> Result<DeliveryRequest, WebPushError> {
    let text = json!({
        "sequence": notification.sequence,
        "kind": notification.kind,
        "text": cut(&notification.text, MAX_TEXT),
        "sessionId": notification.session_id,
        "at": notification.at,
    });
    let keys = &subscription.keys;
    let (point, auth) = (point(&keys.p256dh)?, auth(&keys.auth)?);
    let body = web_push_native::encrypt(text.to_string().into_bytes(), &point, &auth)
        .map_err(|error| WebPushError::Encryption(error.to_string()))?;
    let contact = integrations.web_push_contact.as_deref();
    let urgency = if notification.kind.waits_for_a_person() { "high" } else { "normal" };
    let mut headers = vec![
        ("authorization", WebPushKey::of(secret)?.authorization(&subscription.endpoint, contact, now)?),
        ("content-encoding", "aes128gcm".to_owned()),
        ("content-type", "application/octet-stream".to_owned()),
        ("ttl", KEPT.to_string()),
        ("urgency", urgency.to_owned()),
    ];
    if let Some(session) = notification.session_id {
        // A topic has at most 32 characters.
        headers.push(("topic", session.to_string().replace('-', "")));
    }
    Ok(DeliveryRequest {
        owner: owner.clone(),
        url: subscription.endpoint.clone(),
        egress_policy: integrations.egress_policy,
        headers,
        body: body.into(),
    })
}
