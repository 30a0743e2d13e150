use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_broker::{Broker, OutgoingMessage};
use pilothouse_domain::{AgentSessionId, EnvelopeId, IdSource, RunId, Timestamp};
use pilothouse_runtime::{ReportError, RunEvents};
use pilothouse_store::Clock;
use pilothouse_wire::envelope::{PROTOCOL_VERSION, Signer};
use pilothouse_wire::launch::RunExit;
use pilothouse_wire::{Envelope, RawEvent, RootSecret, Signed};
use serde::{Deserialize, Serialize};

use crate::queues;
use crate::{App, FreshIds};

/// Reports the end of runs on the events queue, signed with a key that no sidecar has.
#[derive(Clone)]
pub struct RunExitReporter {
    broker: Arc<dyn Broker>,
    secret: RootSecret,
    clock: Clock,
}

impl RunExitReporter {
    pub fn new(broker: Arc<dyn Broker>, secret: RootSecret, clock: Clock) -> Self {
        Self { broker, secret, clock }
    }

    pub fn of(app: &App) -> Self {
        Self::new(Arc::clone(&app.broker), app.secret.clone(), Arc::clone(&app.clock))
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ReportError {
    ReportError(error.into())
}

/// A message of the control plane to itself on the events queue, so that it is processed after the session's events that were
/// queued before. It is signed with a key that no sidecar has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ControlMessage {
    /// When this message is processed, everything that was queued for the session before `sent_at` is processed.
    QueueProbe {
        /// When the message was sent.
        sent_at: Timestamp,
    },
    /// The owner declared the machine of the run lost.
    RunLost {
        /// An explanation for people.
        detail: String,
    },
}

impl RunExitReporter {
    /// Sends a probe that is processed after the currently queued events of a run. Repeats with the same `after` are deduplicated
    /// for a while.
    pub async fn send_probe(
        &self,
        session: AgentSessionId,
        run: RunId,
        after: Timestamp,
    ) -> Result<(), ReportError> {
        let id = format!("probe-{run}-{}", after.as_millis());
        self.send(session, run, id, &ControlMessage::QueueProbe { sent_at: (self.clock)() }).await
    }

    /// Ends a run whose machine was declared lost.
    pub async fn run_lost(
        &self,
        session: AgentSessionId,
        run: RunId,
        detail: String,
    ) -> Result<(), ReportError> {
        self.send(session, run, format!("lost-{run}"), &ControlMessage::RunLost { detail }).await
    }

    async fn send<T: Serialize + Sync>(
        &self,
        session: AgentSessionId,
        run: RunId,
        id: String,
        body: &T,
    ) -> Result<(), ReportError> {
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: session,
            run_id: run,
            message_id: EnvelopeId::new(FreshIds.fresh()),
            sequence: None,
            time: (self.clock)(),
            occurred_at: None,
            traceparent: None,
            body,
        };
        let key = self.secret.runtime_key(run);
        let signed = Signed::seal(&envelope, self.secret.id(), Signer::Runtime, &key).map_err(failed)?;
        let body = serde_json::to_string(&signed).map_err(failed)?;
        let message = OutgoingMessage::new(session.to_string(), id, body);
        let outcome = self.broker.send(&queues::events(), vec![message]).await.map_err(failed)?;
        match outcome.failed.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(failed(error)),
        }
    }
}

#[async_trait]
impl RunEvents for RunExitReporter {
    async fn report_exit(
        &self,
        session: AgentSessionId,
        run: RunId,
        exit: RunExit,
    ) -> Result<(), ReportError> {
        self.send(session, run, format!("exit-{run}"), &RawEvent::RunExited(exit)).await
    }
}
