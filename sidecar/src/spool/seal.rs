//! Makes signed envelopes of bodies.

use pilothouse_domain::{AgentSessionId, EnvelopeId, RunId, TraceParent};
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::launch::SidecarLaunch;
use pilothouse_wire::{Envelope, EnvelopeKey, Signed};
use serde::Serialize;

use crate::clock;
use crate::redaction::Redactor;

/// Who this sidecar is, and its key.
#[derive(Clone)]
pub struct Sealer {
    session_id: AgentSessionId,
    run_id: RunId,
    key_id: String,
    key: EnvelopeKey,
    redactor: Redactor,
}

impl Sealer {
    /// The sealer of a run.
    pub fn new(launch: &SidecarLaunch) -> Self {
        Self {
            session_id: launch.request.session_id,
            run_id: launch.request.run_id,
            key_id: launch.key_id.clone(),
            key: launch.envelope_key.clone(),
            redactor: Redactor::of(launch),
        }
    }

    /// Leaves secrets out of what is sealed; done before, while it can still be told from what stands around it.
    pub(super) const fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The run that it signs for.
    pub const fn run_id(&self) -> RunId {
        self.run_id
    }

    /// A fresh envelope with `body` as the JSON of its signed form, and its id. `traceparent` says what it answers.
    pub fn seal<B: Serialize>(
        &self,
        sequence: Option<u64>,
        traceparent: Option<TraceParent>,
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
            traceparent,
            body,
        };
        let signed = Signed::seal(&envelope, &self.key_id, Signer::Sidecar, &self.key)?;
        Ok((message_id, serde_json::to_string(&signed)?))
    }
}
