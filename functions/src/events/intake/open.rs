//! Opens a message: verifies the envelope and its signer, and determines the kind of message.

use pilothouse_app::run_exit::ControlMessage;
use pilothouse_app::trace::{self, Span};
use pilothouse_app::{App, METRICS};
use pilothouse_broker::Received;
use pilothouse_domain::{AgentSessionId, RunId, TraceParent};
use pilothouse_wire::envelope::{EnvelopeError, Signer};
use pilothouse_wire::launch::RunExit;
use pilothouse_wire::{RawEvent, Signed};

use super::event_body::EventBody;

#[derive(Debug, Clone)]
pub(super) enum Opened {
    /// The run is alive.
    Heartbeat {
        run: RunId,
        /// Whether the disk of the sidecar is full.
        disk_full: bool,
    },
    /// The runtime reports the end of the run.
    Exited {
        run: RunId,
        /// How the run ended.
        exit: RunExit,
    },
    /// The control plane sent itself a message about the run.
    Control { run: RunId, message: ControlMessage },
    /// An event of the sidecar, which may be malformed.
    Event {
        run: RunId,
        sequence: u64,
        body: Box<EventBody>,
        /// The message was a dead letter and was sent again (decision 9).
        redriven: bool,
        traceparent: Option<TraceParent>,
    },
}

impl Opened {
    /// Starts the span of the message and makes it the parent of what the message changes. Heartbeats and control messages have no
    /// span, because they are frequent or have no effect of their own.
    pub(super) fn begin(&mut self, session: AgentSessionId) -> Option<Span> {
        let (run, parent, kind) = match self {
            Self::Heartbeat { .. } | Self::Control { .. } => return None,
            Self::Exited { run, .. } => (*run, None, None),
            Self::Event { run, body, traceparent, .. } => (*run, *traceparent, Some(body.kind())),
        };
        let span = trace::begin(parent, || trace::About {
            function: "intake",
            source: "events.fifo",
            session,
            run: Some(run),
            kind: kind.unwrap_or("run_exited").to_owned(),
        });
        if let Self::Event { traceparent, .. } = self {
            *traceparent = span.place();
        }
        Some(span)
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The envelope is signed with a key of another secret.
    #[error("unknown key `{0}`")]
    UnknownKey(String),
    #[error("the envelope has no sequence and is not a heartbeat")]
    NoSequence,
    /// A sidecar signed the message.
    #[error("only the runtime may send this message")]
    NotTheirs,
}

/// Verifies the sender of a message and determines its kind.
pub(super) fn open(app: &App, message: &Received) -> Result<(AgentSessionId, Opened), Refused> {
    let signed = Signed::parse(&message.body)?;
    if signed.kid != app.secret.id() {
        return Err(Refused::UnknownKey(signed.kid));
    }
    let unverified = signed.unverified()?;
    let run = unverified.claimed_run();
    let key = match signed.signer {
        Signer::Sidecar => app.secret.envelope_key(run),
        Signer::Runtime => app.secret.runtime_key(run),
    };
    let envelope = unverified.verify(&key)?;
    // The difference of two clocks: good enough for a metric, but not for a decision (decision 13).
    let lag = app.now().as_millis() - envelope.time.as_millis();
    tracing::trace!(target: METRICS, event_lag_ms = lag.max(0));
    let occurred_at = envelope.occurred_at.unwrap_or(envelope.time);
    let body = EventBody::parse(envelope.body.get().to_owned(), Some(occurred_at));
    let traceparent = envelope.traceparent;
    let opened = match (signed.signer, envelope.sequence) {
        (Signer::Sidecar, Some(sequence)) => {
            let redriven = message.redriven;
            Opened::Event { run, sequence, body: Box::new(body), redriven, traceparent }
        }
        (Signer::Sidecar, None) => match body.event {
            Ok(RawEvent::Heartbeat { disk_full }) => Opened::Heartbeat { run, disk_full },
            Ok(RawEvent::RunExited(_)) => return Err(Refused::NotTheirs),
            _ => return Err(Refused::NoSequence),
        },
        (Signer::Runtime, _) => match body.event {
            Ok(RawEvent::RunExited(exit)) => Opened::Exited { run, exit },
            _ => match serde_json::from_value(body.value) {
                Ok(message) => Opened::Control { run, message },
                Err(_) => return Err(Refused::NotTheirs),
            },
        },
    };
    Ok((envelope.session_id, opened))
}
