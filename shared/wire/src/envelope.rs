//! Envelopes: the format of every message on a queue, with its signature (decision 8).

use pilothouse_domain::{AgentSessionId, EnvelopeId, RunId, Timestamp, TraceParent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::keys::EnvelopeKey;

/// Version of this protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// Most bytes of an envelope. Larger contents go to the blob store first (decision 6).
pub const MAX_ENVELOPE_BYTES: usize = 128 * 1024;

/// A message in either direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<B> {
    /// Version of the protocol; see [`PROTOCOL_VERSION`].
    pub protocol_version: u32,
    /// The session that the message concerns.
    pub session_id: AgentSessionId,
    /// The run that the message concerns.
    pub run_id: RunId,
    /// Id of this envelope, a `UUIDv7`.
    pub message_id: EnvelopeId,
    /// Sequence of a run's event, from 1 without gaps. Absent on commands, heartbeats and events of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Time by the sender's clock, for information only (decision 13).
    pub time: Timestamp,
    /// When the agent emitted the event, by its own clock (S2 `sourceOccurredAt`). Absent if the agent does not say so: then `time` is
    /// the best estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
    /// W3C trace context. A command carries that of the request that caused it, and the events that answer the command carry it
    /// back.
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// Content of the message.
    pub body: B,
}

/// Who signed an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Signer {
    /// The sidecar of the run.
    Sidecar,
    /// The runtime that runs the sidecar.
    Runtime,
}

/// A signed envelope. The envelope is kept as the exact bytes that were signed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    /// Id of the root secret from which the key was derived.
    pub kid: String,
    /// Whose key signed the envelope.
    pub signer: Signer,
    /// HMAC-SHA256 over the bytes of `envelope`, in hexadecimal.
    pub signature: String,
    /// The envelope as it was signed.
    pub envelope: Box<RawValue>,
}

/// Why a message is not a valid signed envelope.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// The message is not the JSON of a signed envelope.
    #[error("not a signed envelope")]
    Malformed(#[source] serde_json::Error),
    /// The signature does not match the envelope and run.
    #[error("the signature does not match")]
    Forged,
    /// The protocol version is not supported.
    #[error("protocol version {0} is not supported")]
    UnknownVersion(u32),
}

impl Signed {
    /// Signs `envelope`.
    pub fn seal<B: Serialize>(
        envelope: &Envelope<B>,
        kid: &str,
        signer: Signer,
        key: &EnvelopeKey,
    ) -> Result<Self, serde_json::Error> {
        let raw = escaped(serde_json::value::to_raw_value(envelope)?)?;
        Ok(Self { kid: kid.to_owned(), signer, signature: key.sign(raw.get().as_bytes()), envelope: raw })
    }

    /// Parses a message from a queue without checking its signature.
    pub fn parse(message: &str) -> Result<Self, EnvelopeError> {
        serde_json::from_str(message).map_err(EnvelopeError::Malformed)
    }

    /// Parses everything but the body, which may be malformed although it is authentic.
    pub fn unverified(&self) -> Result<Unverified<'_>, EnvelopeError> {
        let envelope = serde_json::from_str(self.envelope.get()).map_err(EnvelopeError::Malformed)?;
        Ok(Unverified { signed: self, envelope })
    }

    /// Parses everything but the body and checks the signature.
    pub fn open(&self, key: &EnvelopeKey) -> Result<Envelope<Box<RawValue>>, EnvelopeError> {
        self.unverified()?.verify(key)
    }
}

/// An envelope whose signature was not checked. Trust nothing before [`Self::verify`] succeeds.
#[derive(Debug)]
pub struct Unverified<'a> {
    signed: &'a Signed,
    envelope: Envelope<Box<RawValue>>,
}

impl Unverified<'_> {
    /// The claimed run. Use it only to find the key.
    pub const fn claimed_run(&self) -> RunId {
        self.envelope.run_id
    }

    /// Checks the signature.
    pub fn verify(self, key: &EnvelopeKey) -> Result<Envelope<Box<RawValue>>, EnvelopeError> {
        let Self { signed, envelope } = self;
        if !key.verifies(signed.envelope.get().as_bytes(), &signed.signature) {
            return Err(EnvelopeError::Forged);
        }
        if envelope.protocol_version != PROTOCOL_VERSION {
            return Err(EnvelopeError::UnknownVersion(envelope.protocol_version));
        }
        Ok(envelope)
    }
}

/// Escapes the two characters that SQS does not accept in a message. They can occur only in strings.
fn escaped(json: Box<RawValue>) -> Result<Box<RawValue>, serde_json::Error> {
    if !json.get().contains(['\u{fffe}', '\u{ffff}']) {
        return Ok(json);
    }
    RawValue::from_string(json.get().replace('\u{fffe}', r"\ufffe").replace('\u{ffff}', r"\uffff"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::RootSecret;
    use crate::{Command, RawEvent};

    fn secret() -> RootSecret {
        RootSecret::new("k1", vec![7; 32]).unwrap()
    }

    fn run(n: u128) -> RunId {
        RunId::new(uuid(n))
    }

    fn uuid(n: u128) -> ::uuid::Uuid {
        ::uuid::Uuid::from_u128(n)
    }

    fn envelope(run_id: RunId) -> Envelope<RawEvent> {
        Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: AgentSessionId::new(uuid(1)),
            run_id,
            message_id: EnvelopeId::new(uuid(2)),
            sequence: Some(1),
            time: Timestamp::from_millis(0),
            occurred_at: None,
            traceparent: None,
            body: RawEvent::LogChunk { stream: "agent".into(), content: "hello".into() },
        }
    }

    #[test]
    fn sealed_envelope_can_be_opened() {
        let key = secret().envelope_key(run(3));
        let sealed = Signed::seal(&envelope(run(3)), "k1", Signer::Sidecar, &key).unwrap();
        let text = serde_json::to_string(&sealed).unwrap();
        let read = Signed::parse(&text).unwrap();
        assert_eq!(read.unverified().unwrap().claimed_run(), run(3));
        let opened = read.open(&key).unwrap();
        let body: RawEvent = serde_json::from_str(opened.body.get()).unwrap();
        assert_eq!(body, envelope(run(3)).body);
    }

    #[test]
    fn invalid_sqs_characters_are_escaped_before_signing() {
        let key = secret().envelope_key(run(3));
        let mut said = envelope(run(3));
        said.body = RawEvent::LogChunk { stream: "agent".into(), content: "a\u{fffe}b\u{ffff}".into() };
        let sealed = Signed::seal(&said, "k1", Signer::Sidecar, &key).unwrap();
        let text = serde_json::to_string(&sealed).unwrap();
        assert!(!text.contains(['\u{fffe}', '\u{ffff}']), "{text}");
        let opened = Signed::parse(&text).unwrap().open(&key).unwrap();
        assert_eq!(serde_json::from_str::<RawEvent>(opened.body.get()).unwrap(), said.body);
    }

    #[test]
    fn foreign_key_and_altered_byte_are_refused() {
        let key = secret().envelope_key(run(3));
        let sealed = Signed::seal(&envelope(run(3)), "k1", Signer::Sidecar, &key).unwrap();
        assert!(matches!(sealed.open(&secret().envelope_key(run(4))), Err(EnvelopeError::Forged)));
        assert!(matches!(sealed.open(&secret().runtime_key(run(3))), Err(EnvelopeError::Forged)));
        let changed = serde_json::to_string(&sealed).unwrap().replace("hello", "hellO");
        assert!(matches!(Signed::parse(&changed).unwrap().open(&key), Err(EnvelopeError::Forged)));
    }

    #[test]
    fn trace_is_signed_and_optional() {
        let key = secret().envelope_key(run(3));
        let mut said = envelope(run(3));
        let without = serde_json::to_string(&said).unwrap();
        assert!(!without.contains("traceparent"), "older envelopes have the same bytes: {without}");
        said.traceparent = TraceParent::new(1, 2);
        let sealed = Signed::seal(&said, "k1", Signer::Sidecar, &key).unwrap();
        assert_eq!(sealed.open(&key).unwrap().traceparent, said.traceparent);
        let moved =
            serde_json::to_string(&sealed).unwrap().replace("-0000000000000002-", "-0000000000000003-");
        assert!(matches!(Signed::parse(&moved).unwrap().open(&key), Err(EnvelopeError::Forged)));
        for other in ["null", "\"nonsense\""] {
            let odd = without.replacen('{', &format!("{{\"traceparent\":{other},"), 1);
            let read: Envelope<RawEvent> = serde_json::from_str(&odd).unwrap();
            assert_eq!(read.traceparent, None);
        }
    }

    #[test]
    fn time_of_emission_is_optional() {
        let mut said = envelope(run(3));
        let without = serde_json::to_string(&said).unwrap();
        assert!(!without.contains("occurredAt"), "older envelopes have the same bytes: {without}");
        let read: Envelope<RawEvent> = serde_json::from_str(&without).unwrap();
        assert_eq!(read.occurred_at, None);
        said.occurred_at = Some(Timestamp::from_millis(7));
        let with = serde_json::to_string(&said).unwrap();
        assert_eq!(serde_json::from_str::<Envelope<RawEvent>>(&with).unwrap(), said);
    }

    #[test]
    fn names_on_the_wire_match_serialisation() {
        let event = RawEvent::ContextExhausted {};
        assert_eq!(serde_json::to_value(&event).unwrap()["type"], event.name());
        let command = Command::Replay { from_sequence: 1, to_sequence: 2 };
        assert_eq!(serde_json::to_value(&command).unwrap()["type"], command.name());
    }
}
