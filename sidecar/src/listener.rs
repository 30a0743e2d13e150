//! Receives commands from the queue. A command is stored in the spool before it is deleted from the queue (decision
//! 10).

use std::time::Duration;

use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::{Ack, AckStep, MessagePhase};
use pilothouse_wire::{Command, Envelope, RawEvent};
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::adapter::{AckEvent, Refusal};
use crate::batching::BatchWindow;
use crate::broker::{Broker, BrokerError};
use crate::faults::Faults;
use crate::publisher::PublishError;
use crate::retry::Backoff;
use crate::spool::{Spool, SpoolError, Taken};

const MAX_COMMANDS: usize = 10;
/// Longest wait that the broker supports.
const WAIT: Duration = Duration::from_secs(20);

pub struct Listener {
    pub broker: Broker,
    pub spool: Spool,
    pub window: BatchWindow,
    /// Commands to ignore; set by scripts.
    pub faults: Faults,
    pub backoff: Backoff,
    /// Receives new commands in order.
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
        let messages = match self.broker.receive(MAX_COMMANDS, WAIT).await {
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
        // If the deletion fails, the commands arrive again and the spool ignores them.
        Ok(self.broker.delete(receipts).await)
    }

    async fn take(&self, body: &str) -> Result<(), SpoolError> {
        let envelope = match serde_json::from_str::<Envelope<IssuedCommand>>(body) {
            Ok(envelope) => envelope,
            Err(e) => return self.refuse_unreadable(body, &e).await,
        };
        let issued = envelope.body;
        if envelope.run_id != self.spool.sealer().run_id() {
            warn!(command = issued.command.name(), "dropping a command for another run");
            return Ok(());
        }
        if self.faults.ignores(&issued) {
            debug!(command = issued.command.name(), "ignoring a command, as the script demands");
            return Ok(());
        }
        let received = received(&issued);
        match self.spool.take(issued.clone(), envelope.traceparent, received).await? {
            Taken::New => {
                self.window.record(&issued.command);
                // The receiver exists until the sidecar ends, and the spool stores the command.
                _ = self.taken.send(issued);
            }
            Taken::Replayed(found) => info!(command = ?issued.command, found, "replaying envelopes"),
            Taken::Repeat => {}
        }
        Ok(())
    }

    /// Refuses a command that cannot be parsed, if it has an id. The sidecar may be too old for it.
    async fn refuse_unreadable(&self, body: &str, error: &serde_json::Error) -> Result<(), SpoolError> {
        warn!(error = error as &dyn std::error::Error, "failed to parse a command");
        let id = serde_json::from_str::<Value>(body)
            .ok()
            .and_then(|envelope| envelope.get("body")?.get("commandId")?.as_str()?.parse().ok());
        let Some(id) = id else { return Ok(()) };
        let refusal = Refusal::invalid(format!("the command cannot be read: {error}"));
        self.spool.acknowledge(id, refusal.event(id), true).await
    }
}

/// The acknowledgement of a command; `None` for `replay` and messages, which have other answers.
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
