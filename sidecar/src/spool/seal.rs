//! Turns bodies into signed envelopes.

use pilothouse_domain::{AgentSessionId, EnvelopeId, RunId, Timestamp, TraceParent};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::launch::SidecarLaunch;
use pilothouse_wire::{Envelope, EnvelopeKey, Signed};
use serde::Serialize;

use crate::clock;
use crate::redaction::Redactor;

#[derive(Clone)]
pub struct Sealer {
    session_id: AgentSessionId,
    run_id: RunId,
    key_id: String,
    key: EnvelopeKey,
    redactor: Redactor,
}

impl Sealer {
    pub fn new(launch: &SidecarLaunch) -> Self {
        Self {
            session_id: launch.request.session_id,
            run_id: launch.request.run_id,
            key_id: launch.key_id.clone(),
            key: launch.envelope_key.clone(),
            redactor: Redactor::of(launch),
        }
    }

    /// Runs before sealing, while a body still has its structure.
    pub(super) const fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub const fn run_id(&self) -> RunId {
        self.run_id
    }

    /// Wraps `body` into a new signed envelope. Returns its JSON and its id. `traceparent` is the span of the command
    /// that it answers, `occurred_at` the time by the agent's own clock.
    pub fn seal<B: Serialize>(
        &self,
        sequence: Option<u64>,
        traceparent: Option<TraceParent>,
        occurred_at: Option<Timestamp>,
        body: B,
    ) -> serde_json::Result<(EnvelopeId, String)> {
        let message_id = clock::envelope_id();
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: self.session_id,
            run_id: self.run_id,
            message_id,
            sequence,
            time: clock::now(),
            occurred_at,
            traceparent,
            body,
        };
        let signed = Signed::seal(&envelope, &self.key_id, Signer::Sidecar, &self.key)?;
        Ok((message_id, serde_json::to_string(&signed)?))
    }
}
