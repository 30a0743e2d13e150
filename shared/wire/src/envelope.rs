//! What every message looks like on a queue (architecture: Messages), and its signature (ruling 8).

use pilothouse_domain::{AgentSessionId, EnvelopeId, RunId, Timestamp, TraceParent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::keys::EnvelopeKey;

/// The version of this language.
pub const PROTOCOL_VERSION: u32 = 1;

/// The largest envelope in bytes; what is larger goes to the blob store first (ruling 6).
pub const MAX_ENVELOPE_BYTES: usize = 128 * 1024;

/// One message, either way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<B> {
    /// [`PROTOCOL_VERSION`].
    pub protocol_version: u32,
    /// The session.
    pub session_id: AgentSessionId,
    /// The run.
    pub run_id: RunId,
    /// This envelope; a `UUIDv7`.
    pub message_id: EnvelopeId,
    /// Counts a run's events from 1 without gaps; absent on commands, heartbeats and what the runtime says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The sender's clock. Decides nothing (ruling 13).
    pub time: Timestamp,
    /// Where it stands in a trace: a command carries on that of the request behind it, and what answers the command
    /// carries it back.
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// What it says.
    pub body: B,
}

/// Who signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Signer {
    /// The sidecar of the run.
    Sidecar,
    /// The runtime under it.
    Runtime,
}

/// An envelope as the exact bytes that were signed, with the signature beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    /// The id of the root secret that the key was derived from.
    pub kid: String,
    /// Whose key it is.
    pub signer: Signer,
    /// HMAC-SHA256 over the bytes of `envelope`, in hexadecimal.
    pub signature: String,
    /// The envelope, untouched.
    pub envelope: Box<RawValue>,
}

/// A message that is no signed envelope.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// Not the JSON of a signed envelope.
    #[error("not a signed envelope")]
    Malformed(#[source] serde_json::Error),
    /// The signature is not of this envelope by this run.
    #[error("the signature does not fit")]
    Forged,
    /// A version that this side does not speak.
    #[error("protocol version {0} is not spoken here")]
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

    /// Reads a message from a queue. The signature is not yet checked.
    pub fn parse(message: &str) -> Result<Self, EnvelopeError> {
        serde_json::from_str(message).map_err(EnvelopeError::Malformed)
    }

    /// Who claims to have sent it. Only for finding the key: nothing else may be believed before [`Self::open`].
    pub fn claimed(&self) -> Result<Claim, EnvelopeError> {
        serde_json::from_str(self.envelope.get()).map_err(EnvelopeError::Malformed)
    }

    /// Checks the signature and reads all but the body, which may be malformed although it is authentic.
    pub fn open(&self, key: &EnvelopeKey) -> Result<Envelope<Box<RawValue>>, EnvelopeError> {
        if !key.verifies(self.envelope.get().as_bytes(), &self.signature) {
            return Err(EnvelopeError::Forged);
        }
        let envelope: Envelope<Box<RawValue>> =
            serde_json::from_str(self.envelope.get()).map_err(EnvelopeError::Malformed)?;
        if envelope.protocol_version != PROTOCOL_VERSION {
            return Err(EnvelopeError::UnknownVersion(envelope.protocol_version));
        }
        Ok(envelope)
    }
}

/// The same JSON without the two characters that SQS takes in no message. They stand in strings alone, and agents say
/// anything.
fn escaped(json: Box<RawValue>) -> Result<Box<RawValue>, serde_json::Error> {
    if !json.get().contains(['\u{fffe}', '\u{ffff}']) {
        return Ok(json);
    }
    RawValue::from_string(json.get().replace('\u{fffe}', r"\ufffe").replace('\u{ffff}', r"\uffff"))
}

/// Who an envelope claims to be from.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The session.
    pub session_id: AgentSessionId,
    /// The run.
    pub run_id: RunId,
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
            traceparent: None,
            body: RawEvent::LogChunk { stream: "agent".into(), content: "hello".into() },
        }
    }

    #[test]
    fn opens_what_was_sealed() {
        let key = secret().envelope_key(run(3));
        let sealed = Signed::seal(&envelope(run(3)), "k1", Signer::Sidecar, &key).unwrap();
        let text = serde_json::to_string(&sealed).unwrap();
        let read = Signed::parse(&text).unwrap();
        assert_eq!(read.claimed().unwrap().run_id, run(3));
        let opened = read.open(&key).unwrap();
        let body: RawEvent = serde_json::from_str(opened.body.get()).unwrap();
        assert_eq!(body, envelope(run(3)).body);
    }

    #[test]
    fn what_sqs_takes_in_no_message_is_escaped_before_it_is_signed() {
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
    fn another_runs_key_and_a_changed_byte_are_refused() {
        let key = secret().envelope_key(run(3));
        let sealed = Signed::seal(&envelope(run(3)), "k1", Signer::Sidecar, &key).unwrap();
        assert!(matches!(sealed.open(&secret().envelope_key(run(4))), Err(EnvelopeError::Forged)));
        assert!(matches!(sealed.open(&secret().runtime_key(run(3))), Err(EnvelopeError::Forged)));
        let changed = serde_json::to_string(&sealed).unwrap().replace("hello", "hellO");
        assert!(matches!(Signed::parse(&changed).unwrap().open(&key), Err(EnvelopeError::Forged)));
    }

    #[test]
    fn a_trace_is_signed_with_the_rest_and_neither_needed_nor_a_reason_to_refuse() {
        let key = secret().envelope_key(run(3));
        let mut said = envelope(run(3));
        let without = serde_json::to_string(&said).unwrap();
        assert!(!without.contains("traceparent"), "envelopes of before are the same bytes: {without}");
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
    fn names_on_the_wire_are_the_serialised_ones() {
        let event = RawEvent::ContextExhausted {};
        assert_eq!(serde_json::to_value(&event).unwrap()["type"], event.name());
        let command = Command::Replay { from_sequence: 1, to_sequence: 2 };
        assert_eq!(serde_json::to_value(&command).unwrap()["type"], command.name());
    }
}
