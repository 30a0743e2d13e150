//! The runtime's own word that a run is over: signed with a key that no sidecar has, on the events queue.

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_broker::{Broker, Outgoing};
use pilothouse_domain::{AgentSessionId, EnvelopeId, IdSource, RunId};
use pilothouse_runtime::{ReportError, RunEvents};
use pilothouse_store::Clock;
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::launch::RunExit;
use pilothouse_wire::{Envelope, RawEvent, RootSecret, Signed};

use crate::app::{App, FreshIds};
use crate::queues;

/// Tells on the events queue that runs are over.
#[derive(Clone)]
pub struct Ends {
    broker: Arc<dyn Broker>,
    secret: RootSecret,
    clock: Clock,
}

impl Ends {
    /// Signs with a key derived from `secret`.
    pub fn new(broker: Arc<dyn Broker>, secret: RootSecret, clock: Clock) -> Self {
        Self { broker, secret, clock }
    }

    /// With the engines of an app.
    pub fn of(app: &App) -> Self {
        Self::new(Arc::clone(&app.broker), app.secret.clone(), Arc::clone(&app.clock))
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ReportError {
    ReportError(error.into())
}

#[async_trait]
impl RunEvents for Ends {
    async fn exited(&self, session: AgentSessionId, run: RunId, exit: RunExit) -> Result<(), ReportError> {
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: session,
            run_id: run,
            message_id: EnvelopeId::new(FreshIds.fresh()),
            sequence: None,
            time: (self.clock)(),
            traceparent: None,
            body: RawEvent::RunExited(exit),
        };
        let key = self.secret.runtime_key(run);
        let signed = Signed::seal(&envelope, self.secret.id(), Signer::Runtime, &key).map_err(failed)?;
        let body = serde_json::to_string(&signed).map_err(failed)?;
        let message = Outgoing::new(session.to_string(), format!("exit-{run}"), body);
        let outcome = self.broker.send(&queues::events(), vec![message]).await.map_err(failed)?;
        match outcome.failed.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(failed(error)),
        }
    }
}
