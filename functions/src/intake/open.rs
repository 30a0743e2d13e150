//! Opening a message: is it a signed envelope, of whom, and what kind of thing does it say.

use std::borrow::Cow;

use pilothouse_broker::Received;
use pilothouse_domain::{AgentSessionId, RunId, TraceParent};
use pilothouse_wire::envelope::{EnvelopeError, Signer};
use pilothouse_wire::launch::RunExit;
use pilothouse_wire::{RawEvent, Signed};
use serde::Deserialize;

use crate::app::{App, METRICS};
use crate::trace::{self, Span};

/// What an authentic message says.
#[derive(Debug, Clone)]
pub(super) enum Opened {
    /// The run is alive.
    Heartbeat {
        /// Which.
        run: RunId,
    },
    /// The runtime says that the run is over.
    Exited {
        /// Which.
        run: RunId,
        /// How.
        exit: RunExit,
    },
    /// An event of the sidecar, as JSON text that may yet be malformed.
    Event {
        /// Of which run.
        run: RunId,
        /// Its place there.
        sequence: u64,
        /// What it says.
        body: String,
        /// Whether it was a dead letter and is sent again (ruling 9).
        redriven: bool,
        /// Where it stands in a trace.
        traceparent: Option<TraceParent>,
    },
}

impl Opened {
    /// Begins the work on it; what it changes stands at the place of that work. Heartbeats are none: they are many, and
    /// nothing follows from them.
    pub(super) fn begin(&mut self, session: AgentSessionId) -> Option<Span> {
        let (run, parent, kind) = match self {
            Self::Heartbeat { .. } => return None,
            Self::Exited { run, .. } => (*run, None, None),
            Self::Event { run, body, traceparent, .. } => (*run, *traceparent, Some(&*body)),
        };
        let span = trace::begin(parent, || trace::About {
            function: "intake",
            source: "events.fifo",
            session,
            run: Some(run),
            kind: kind.map_or_else(|| "run_exited".to_owned(), |body| kind_of(body)),
        });
        if let Self::Event { traceparent, .. } = self {
            *traceparent = span.place();
        }
        Some(span)
    }
}

fn kind_of(body: &str) -> String {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        name: Cow<'a, str>,
    }
    serde_json::from_str::<Kind<'_>>(body)
        .map_or_else(|_| "unreadable".to_owned(), |kind| kind.name.into_owned())
}

/// Why a message is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// Not what it should be, or not by whom it says.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// Signed with a secret that is not in use here.
    #[error("the key `{0}` is not known here")]
    UnknownKey(String),
    /// Authentic, but neither an event with a sequence nor one of those without.
    #[error("an envelope without a sequence that is no heartbeat")]
    NoSequence,
    /// Signed by a sidecar, but only the runtime may say it.
    #[error("a sidecar may not say this")]
    NotTheirs,
}

/// Checks who sent a message and what kind of thing it says.
pub(super) fn open(app: &App, message: &Received) -> Result<(AgentSessionId, Opened), Refused> {
    let signed = Signed::parse(&message.body)?;
    if signed.kid != app.secret.id() {
        return Err(Refused::UnknownKey(signed.kid));
    }
    let run = signed.claimed()?.run_id;
    let key = match signed.signer {
        Signer::Sidecar => app.secret.envelope_key(run),
        Signer::Runtime => app.secret.runtime_key(run),
    };
    let envelope = signed.open(&key)?;
    // By two clocks: good enough for a metric, and for nothing else (ruling 13).
    let lag = app.now().as_millis() - envelope.time.as_millis();
    tracing::trace!(target: METRICS, event_lag_ms = lag.max(0));
    let (body, traceparent) = (envelope.body.get(), envelope.traceparent);
    let opened = match (signed.signer, envelope.sequence) {
        (Signer::Sidecar, Some(sequence)) => {
            let redriven = message.redriven;
            Opened::Event { run, sequence, body: body.to_owned(), redriven, traceparent }
        }
        (Signer::Sidecar, None) => match serde_json::from_str(body) {
            Ok(RawEvent::Heartbeat {}) => Opened::Heartbeat { run },
            Ok(RawEvent::RunExited(_)) => return Err(Refused::NotTheirs),
            _ => return Err(Refused::NoSequence),
        },
        (Signer::Runtime, _) => match serde_json::from_str(body) {
            Ok(RawEvent::RunExited(exit)) => Opened::Exited { run, exit },
            _ => return Err(Refused::NotTheirs),
        },
    };
    Ok((envelope.session_id, opened))
}
