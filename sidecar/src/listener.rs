//! Takes commands from the queue: each is in the spool before it leaves the queue (ruling 10).

use std::time::Duration;

use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::{Ack, AckStep, MessagePhase};
use pilothouse_wire::{Command, Envelope, RawEvent};
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::adapter::{AckEvent, Refusal};
use crate::broker::{Broker, BrokerError};
use crate::faults::Faults;
use crate::publisher::PublishError;
use crate::retry::Backoff;
use crate::spool::{Spool, SpoolError, Taken};

/// As many commands as a request takes at most.
const MOST: usize = 10;
/// As long as the broker waits for a command at most.
const WAIT: Duration = Duration::from_secs(20);

/// Receives the commands of the run.
pub struct Listener {
    /// Where they come from.
    pub broker: Broker,
    /// Where they are kept.
    pub spool: Spool,
    /// Which of them a script wants ignored.
    pub faults: Faults,
    /// How long to wait after a failed request.
    pub backoff: Backoff,
    /// Where new ones go, in order.
    pub taken: mpsc::UnboundedSender<IssuedCommand>,
}

impl Listener {
    /// Listens until the broker refuses the run for good or the spool fails.
    pub async fn run(self) -> PublishError {
        let mut backoff = self.backoff.clone();
        loop {
            match self.round().await {
                Ok(Ok(())) => backoff.reset(),
                Ok(Err(e)) if e.is_final() => return PublishError::Rejected(e),
                Ok(Err(e)) => {
                    warn!(error = &e as &dyn std::error::Error, "no commands can be received");
                    tokio::time::sleep(backoff.failed()).await;
                }
                Err(e) => return PublishError::Spool(e),
            }
        }
    }

    async fn round(&self) -> Result<Result<(), BrokerError>, SpoolError> {
        let messages = match self.broker.receive(MOST, WAIT).await {
            Ok(messages) => messages,
            Err(e) => return Ok(Err(e)),
        };
        if messages.is_empty() {
            return Ok(Ok(()));
        }
        let mut receipts = Vec::with_capacity(messages.len());
        for message in messages {
            self.take(&message.body).await?;
            receipts.push(message.receipt);
        }
        // If this fails they come again, and are known.
        Ok(self.broker.delete(receipts).await)
    }

    async fn take(&self, body: &str) -> Result<(), SpoolError> {
        let envelope = match serde_json::from_str::<Envelope<IssuedCommand>>(body) {
            Ok(envelope) => envelope,
            Err(e) => return self.refuse_unreadable(body, &e).await,
        };
        let issued = envelope.body;
        if envelope.run_id != self.spool.sealer().run_id() {
            warn!(command = issued.command.name(), "a command for another run is dropped");
            return Ok(());
        }
        if self.faults.ignores(&issued) {
            debug!(command = issued.command.name(), "ignored, as the script wants it");
            return Ok(());
        }
        let received = received(&issued);
        match self.spool.take(issued.clone(), envelope.traceparent, received).await? {
            // The host is gone only when the sidecar ends; the spool keeps the command.
            Taken::New => _ = self.taken.send(issued),
            Taken::Replayed(found) => info!(command = ?issued.command, found, "sending again"),
            Taken::Repeat => {}
        }
        Ok(())
    }

    /// A command that is not understood, perhaps because this side is older, is refused if it says who it is.
    async fn refuse_unreadable(&self, body: &str, error: &serde_json::Error) -> Result<(), SpoolError> {
        warn!(error = error as &dyn std::error::Error, "a command cannot be read");
        let id = serde_json::from_str::<Value>(body)
            .ok()
            .and_then(|envelope| envelope.get("body")?.get("commandId")?.as_str()?.parse().ok());
        let Some(id) = id else { return Ok(()) };
        let refusal = Refusal::invalid(format!("the command cannot be read: {error}"));
        self.spool.acknowledge(id, refusal.event(id), true).await
    }
}

/// The acknowledgement that a command has; `replay` has none.
pub(crate) const fn ack_event(command: &Command) -> Option<AckEvent> {
    match command {
        Command::Begin(_) => Some(RawEvent::BeginAck),
        Command::Interrupt {} => Some(RawEvent::InterruptAck),
        Command::Pause {} => Some(RawEvent::PauseAck),
        Command::Resume {} => Some(RawEvent::ResumeAck),
        Command::Stop {} => Some(RawEvent::StopAck),
        Command::ReloadConfig { .. } => Some(RawEvent::ReloadConfigAck),
        Command::Adjust { .. } => Some(RawEvent::AdjustAck),
        Command::Answer { .. } | Command::PlanDecision { .. } => Some(RawEvent::AnswerAck),
        Command::RunValidation { .. } => Some(RawEvent::ValidationAck),
        Command::SteeringMessage { .. } | Command::Replay { .. } => None,
    }
}

fn received(issued: &IssuedCommand) -> Option<RawEvent> {
    let command_id = issued.command_id;
    match &issued.command {
        Command::SteeringMessage { message_id, .. } => {
            Some(RawEvent::MessageAck { command_id, message_id: *message_id, phase: MessagePhase::Received })
        }
        command => ack_event(command).map(|ack| ack(Ack { command_id, step: AckStep::Received })),
    }
}
