//! Keys, all derived from one root secret (decision 8), so that none of them has to be stored.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use pilothouse_domain::{AgentSessionId, RunId, Timestamp, WebhookId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

type HmacSha256 = Hmac<Sha256>;

/// SHA-256 in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn mac(key: &[u8]) -> HmacSha256 {
    #[allow(clippy::expect_used)] // HMAC takes a key of any length
    <HmacSha256 as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// The secret from which every key is derived, with its id.
#[derive(Clone)]
pub struct RootSecret {
    id: String,
    bytes: Vec<u8>,
}

impl RootSecret {
    /// Fewest bytes of a root secret.
    pub const MIN_BYTES: usize = 32;

    /// A secret of at least 32 bytes; `None` if it is shorter.
    pub fn new(id: impl Into<String>, bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() >= Self::MIN_BYTES).then(|| Self { id: id.into(), bytes })
    }

    /// Id of the secret, as keys name it (`kid`).
    pub fn id(&self) -> &str {
        &self.id
    }

    fn derive(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        let mut mac = mac(&self.bytes);
        mac.update(purpose.as_bytes());
        for part in parts {
            // A separator that no id contains, to distinguish ("a", "bc") from ("ab", "c").
            mac.update(b"\0");
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }

    /// The key that a browser sends besides its cookie.
    pub fn console_key(&self, cookie: &str) -> String {
        hex::encode(self.derive("console", &[cookie]))
    }

    /// Key with which a sidecar signs the envelopes of its run.
    pub fn envelope_key(&self, run: RunId) -> EnvelopeKey {
        EnvelopeKey(self.derive("envelope", &[&run.to_string()]))
    }

    /// Key with which the runtime signs its reports about a run. Sidecars do not have it.
    pub fn runtime_key(&self, run: RunId) -> EnvelopeKey {
        EnvelopeKey(self.derive("runtime", &[&run.to_string()]))
    }

    /// Token for the queues of a run on an embedded server's gateway.
    pub fn gateway_token(&self, session: AgentSessionId, run: RunId) -> GatewayToken {
        GatewayToken(format!(
            "{session}.{run}.{}",
            hex::encode(self.derive("gateway", &[&session.to_string(), &run.to_string()]))
        ))
    }

    /// Secret that signs the deliveries of a webhook.
    pub fn webhook_secret(&self, webhook: WebhookId) -> WebhookSecret {
        WebhookSecret(self.derive("webhook", &[&webhook.to_string()]))
    }

    /// Private key by which push services of browsers recognise this control plane: a scalar of the curve P-256 (decision 98). The
    /// chance that a key is not a scalar is 2⁻³²; the next `attempt` then gives another one.
    pub fn web_push_scalar(&self, attempt: u8) -> [u8; 32] {
        self.derive("web-push", &[&attempt.to_string()])
    }

    /// API key of a session's agent: `ph_{session}.{retry}.{hmac}`.
    pub fn api_key(&self, session: AgentSessionId, retry_count: u32) -> String {
        let tag = hex::encode(self.derive("api", &[&session.to_string(), &retry_count.to_string()]));
        format!("ph_{session}.{retry_count}.{tag}")
    }
}

impl fmt::Debug for RootSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootSecret({})", self.id)
    }
}

/// Signs and verifies the envelopes of one run.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvelopeKey([u8; 32]);

impl EnvelopeKey {
    /// Signature of `bytes`, in hexadecimal.
    pub fn sign(&self, bytes: &[u8]) -> String {
        let mut mac = mac(&self.0);
        mac.update(bytes);
        hex::encode(mac.finalize().into_bytes())
    }

    /// Whether `signature` is this key's signature of `bytes`. Takes constant time.
    pub fn verifies(&self, bytes: &[u8], signature: &str) -> bool {
        let mut mac = mac(&self.0);
        mac.update(bytes);
        hex::decode(signature).is_ok_and(|given| mac.verify_slice(&given).is_ok())
    }
}

impl fmt::Debug for EnvelopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvelopeKey(…)")
    }
}

impl Serialize for EnvelopeKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex::encode(self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EnvelopeKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let mut key = [0; 32];
        hex::decode_to_slice(digits, &mut key)
            .map_err(|_| serde::de::Error::custom("an envelope key has 64 hexadecimal digits"))?;
        Ok(Self(key))
    }
}

/// Signs the deliveries of one webhook (Standard Webhooks).
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret([u8; 32]);

impl WebhookSecret {
    /// The secret in the form that its owner receives: `whsec_` and base64.
    pub fn reveal(&self) -> String {
        format!("whsec_{}", BASE64.encode(self.0))
    }

    /// Value of the header `webhook-signature`: `v1,` and the base64 of an HMAC-SHA256 over id, time in seconds and body, separated
    /// by full stops.
    pub fn sign(&self, id: &str, at: Timestamp, body: &str) -> String {
        let mut mac = mac(&self.0);
        mac.update(format!("{id}.{}.{body}", at.as_secs()).as_bytes());
        format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// Token for the queues of one run on an embedded server's gateway: `{session}.{run}.{hmac}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GatewayToken(String);

impl GatewayToken {
    /// The token as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for GatewayToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayToken(…)")
    }
}

/// Compares two secrets without revealing through timing where they differ.
pub fn constant_time_eq(a: &str, b: &str) -> bool {
    // Hashes of different secrets differ everywhere, so comparing them reveals nothing.
    Sha256::digest(a.as_bytes()) == Sha256::digest(b.as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Example of the specification (Standard Webhooks, `webhook-signature`).
    #[test]
    fn deliveries_are_signed_as_standard_webhooks_requires() {
        let key = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        // The specification's key has 24 bytes. HMAC pads both keys with zeros to the same block.
        let mut bytes = [0; 32];
        bytes[..24].copy_from_slice(&key);
        let signature = WebhookSecret(bytes).sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            Timestamp::from_millis(1_614_265_330_000),
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// Example of the standard (FIPS 180-2).
    #[test]
    fn keys_are_hashed_with_sha_256() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), digest);
    }

    #[test]
    fn each_retry_of_a_session_has_its_own_stable_api_key() {
        let root = RootSecret::new("1", vec![7; 32]).unwrap();
        let session: AgentSessionId = "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap();
        let [first, retried] = [0, 1].map(|retry_count| root.api_key(session, retry_count));
        let tag = first.strip_prefix(format!("ph_{session}.0.").as_str()).unwrap();
        assert!(tag.len() == 64 && tag.chars().all(|c| c.is_ascii_hexdigit()), "{first}");
        assert_eq!(root.api_key(session, 0), first);
        assert!(!retried.ends_with(tag), "{retried}");
    }

    #[test]
    fn each_webhook_has_its_own_stable_secret() {
        let root = RootSecret::new("1", vec![7; 32]).unwrap();
        let ids = ["01890a5d-ac96-774b-bcce-b302099a8058", "01890a5d-ac96-774b-bcce-b302099a8059"];
        let [one, two] = ids.map(|id| root.webhook_secret(id.parse().unwrap()).reveal());
        assert!(one.starts_with("whsec_") && one != two);
        assert_eq!(BASE64.decode(&one["whsec_".len()..]).unwrap().len(), 32);
        assert_eq!(root.webhook_secret(ids[0].parse().unwrap()).reveal(), one);
    }
}
