//! The port that every agent integration implements.
//!
//! An adapter is a task. It receives [`AgentCommand`]s from a channel, in the order in which they were issued, and
//! emits raw events. Each command carries the reply handle that acknowledges it, so the adapter reports completion
//! itself.
//!
//! Every event and acknowledgement is durable when the call that emits it returns. To satisfy decision 15, an adapter
//! therefore only has to emit no event of the turn after `reply.done().await` of a pause or an interrupt.

use async_trait::async_trait;
use pilothouse_domain::value::{
    Adjustment, Answer, Capabilities, MessageImage, MessagePriority, MessageSource,
};
use pilothouse_domain::{CommandId, MessageId, Timestamp, ToolCallId, TurnId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use pilothouse_wire::event::{Ack, AckStep, MessagePhase};
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::drafts::Drafts;
use crate::lease::Lease;
use crate::offline::Spend;
use crate::process::Processes;
use crate::redaction::Redactor;
use crate::spool::{Outgoing, Spool, SpoolError};

#[async_trait]
pub trait Adapter: Send {
    /// Adapter name, as sessions and launch files refer to it.
    fn name(&self) -> &'static str;

    fn capabilities(&self) -> Capabilities;

    /// Runs until the conversation ends or the command channel closes, which means stop. The first command is
    /// [`AgentCommand::Begin`].
    ///
    /// No process of the agent may still run when this returns. Dropping the future must have the same effect, because
    /// the host drops an adapter that does not stop in time.
    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError>;
}

/// Why an adapter stopped driving its agent.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// An event could not be stored in the spool.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The adapter cannot use its configuration.
    #[error("the configuration of the adapter is not valid: {0}")]
    Configuration(String),
    /// The agent's process or connection failed.
    #[error("the agent failed: {0}")]
    Agent(String),
}

/// Dependencies of a running adapter.
pub struct AgentContext {
    pub launch: std::sync::Arc<SidecarLaunch>,
    pub events: EventSink,
    /// Closed to stop the agent.
    pub commands: mpsc::UnboundedReceiver<AgentCommand>,
    /// Starts the processes of the agent and its tools.
    pub processes: Processes,
    /// The adapter starts no model call or tool once the lease has expired.
    pub lease: Lease,
}

/// A command to an adapter. There is no stop command: the host closes the channel instead.
#[derive(Debug)]
pub enum AgentCommand {
    Begin(Box<Begin>, Reply),
    Message(Message, MessageReply),
    /// End the current turn without `turn_completed`.
    Interrupt(Reply),
    Pause(Reply),
    /// Continue after a pause.
    Resume(Reply),
    Reload(Box<AgentSessionConfig>, Reply),
    /// Change settings of the running agent, such as its model. The adapter reports the result as `agent_settings`.
    Adjust(Adjustment, Reply),
    /// The owner's answers to a question of the agent.
    Answer(OwnerAnswers, Reply),
    /// The owner's decision on the agent's plan.
    PlanDecision(PlanDecision, Reply),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    pub content: String,
    /// References to images, whose bytes the adapter loads.
    pub images: Vec<MessageImage>,
    /// Decides whether the message enters the running turn or waits for its end.
    pub priority: MessagePriority,
    pub source: MessageSource,
    /// The turn that the message is meant for. If that turn is over, the adapter refuses with [`Refusal::turn_over`].
    pub expected_turn: Option<TurnId>,
}

impl Message {
    /// The turn that the message was meant for, if that is not the current one (decision 30).
    pub(crate) fn missed_turn(&self, current: Option<&TurnId>) -> Option<&TurnId> {
        self.expected_turn.as_ref().filter(|expected| current != Some(*expected))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerAnswers {
    /// The tool call that asks, or that needs permission.
    pub request: ToolCallId,
    /// One answer for each question.
    pub answers: Vec<Answer>,
    /// Input of the tool call that the answers allow, if the owner changed it.
    pub modified_input: Option<Box<Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDecision {
    /// The tool call that submitted the plan.
    pub request: ToolCallId,
    pub approved: bool,
    /// What to change, if the plan is rejected.
    pub feedback: Option<String>,
}

/// Intercepts an adapter's events before they are stored in the spool.
#[async_trait]
pub trait EventFilter: Send + Sync {
    /// Returns the events to store instead of `event`.
    async fn filter(&self, event: RawEvent) -> Result<Vec<RawEvent>, SpoolError>;

    /// Receives the files that a call writes, if its event does not name them.
    fn call_writes(&self, _: &ToolCallId, _: &[String]) {}
}

/// Stores raw events in the spool. An event is durable when the call returns.
#[derive(Clone)]
pub struct EventSink {
    spool: Spool,
    spend: Spend,
    filter: Option<std::sync::Arc<dyn EventFilter>>,
    drafts: Drafts,
    occurred_at: Option<Timestamp>,
}

impl EventSink {
    pub fn new(spool: Spool) -> Self {
        let drafts = Drafts::new(spool.redactor().clone());
        Self { spool, spend: Spend::default(), filter: None, drafts, occurred_at: None }
    }

    /// Sets the time of the next events, by the clock of the agent that emitted them. `None` if it does not say.
    pub(crate) const fn set_occurred_at(&mut self, at: Option<Timestamp>) {
        self.occurred_at = at;
    }

    /// The text that the agent is writing, for those who follow the session. Complete texts are events.
    pub const fn drafts(&self) -> &Drafts {
        &self.drafts
    }

    pub const fn spend(&self) -> &Spend {
        &self.spend
    }

    /// Returns the same sink with `filter` in front of it.
    #[must_use]
    pub fn with_filter(&self, filter: std::sync::Arc<dyn EventFilter>) -> Self {
        Self { filter: Some(filter), ..self.clone() }
    }

    /// Names the files that a call writes, for agents that name them outside of its input. Precedes the event of its result.
    pub(crate) fn call_writes(&self, call: &ToolCallId, paths: &[String]) {
        if let Some(filter) = &self.filter {
            filter.call_writes(call, paths);
        }
    }

    /// A piece of a log that is empty is not stored (S0 8.5 `SessionLogChunk`).
    pub async fn emit(&self, event: RawEvent) -> Result<(), SpoolError> {
        if self.filter.is_some() {
            return self.emit_all(vec![event]).await;
        }
        if is_empty_log(&event) {
            return Ok(());
        }
        self.record(&event);
        let sequence = self.spool.append(self.outgoing(event)?).await?;
        self.drafts.follow_event(sequence);
        Ok(())
    }

    fn outgoing(&self, event: RawEvent) -> Result<Outgoing, SpoolError> {
        Ok(Outgoing::event(event)?.occurred(self.occurred_at))
    }

    fn record(&self, event: &RawEvent) {
        self.spend.record(event);
        self.drafts.record(event);
    }

    /// Like [`Self::emit`], for several events in one transaction.
    pub async fn emit_all(&self, events: Vec<RawEvent>) -> Result<(), SpoolError> {
        let mut events = match &self.filter {
            Some(filter) => {
                let mut passed = Vec::with_capacity(events.len());
                for event in events {
                    passed.extend(filter.filter(event).await?);
                }
                passed
            }
            None => events,
        };
        events.retain(|event| !is_empty_log(event));
        if events.is_empty() {
            return Ok(());
        }
        for event in &events {
            self.record(event);
        }
        let outgoing = events.into_iter().map(|event| self.outgoing(event)).collect::<Result<_, _>>()?;
        let sequence = self.spool.append_all(outgoing).await?;
        self.drafts.follow_event(sequence);
        Ok(())
    }

    /// Registers a secret at run time, in addition to those from the launch. It is redacted from all later events.
    pub fn keep_secret(&self, secret: &str) {
        self.redactor().keep(secret);
    }

    /// Returns the text without known secrets, for log lines.
    pub fn redacted(&self, text: &str) -> String {
        self.redactor().text(text).unwrap_or_else(|| text.to_owned())
    }

    pub const fn redactor(&self) -> &Redactor {
        self.spool.redactor()
    }

    /// Retries a write outside the spool while the disk is full. Like writes to the spool, this blocks the agent.
    pub(crate) async fn until_space<T>(
        &self,
        attempt: impl FnMut() -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        self.spool.until_space(attempt).await
    }

    /// For faults that scripts inject.
    pub(crate) const fn spool(&self) -> &Spool {
        &self.spool
    }
}

fn is_empty_log(event: &RawEvent) -> bool {
    matches!(event, RawEvent::LogChunk { content, .. } if content.is_empty())
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable, machine-readable.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Refusal {
    /// The adapter does not implement the command.
    pub fn not_supported(what: &str) -> Self {
        Self { code: "not-supported", message: format!("this agent does not support `{what}`") }
    }

    /// The turn that a message was meant for is over (decision 30).
    pub fn turn_over(turn: &TurnId) -> Self {
        Self { code: "turn-over", message: format!("the turn {turn} is over") }
    }

    pub fn no_agent() -> Self {
        Self { code: "no-agent", message: "no agent is running".into() }
    }

    /// A message that the agent may have. The control plane does not send it again without its owner (decision 30).
    pub(crate) fn delivery_uncertain() -> Self {
        let message = "it is unknown whether the agent has the message".to_owned();
        Self { code: "delivery-uncertain", message }
    }

    /// `begin` to an agent that was started before.
    pub(crate) fn already_started() -> Self {
        Self::invalid("the agent was started before")
    }

    /// No request waits for this answer or decision.
    pub(crate) fn not_awaited() -> Self {
        Self::invalid("the agent does not wait for this")
    }

    /// The owner changed the input of a call, and the call can only be made as it is.
    pub(crate) fn not_modifiable() -> Self {
        Self::invalid("the input of this tool call cannot be changed")
    }

    /// A compaction before the first turn.
    pub(crate) fn nothing_to_compact() -> Self {
        Self::invalid("there is nothing to compact: the conversation has not begun")
    }

    /// The command is not valid in the current state.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: "invalid", message: message.into() }
    }

    pub(crate) fn event(self, command_id: CommandId) -> RawEvent {
        RawEvent::CommandRefused { command_id, code: self.code.into(), message: self.message }
    }
}

/// State that all replies share. If a reply is dropped unanswered, the sidecar refuses its command with `no-agent`.
#[derive(Debug)]
struct Open {
    command_id: CommandId,
    abandoned: mpsc::UnboundedSender<CommandId>,
    answered: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.answered {
            // The send fails only when the whole sidecar ends. The spool still lists the command as unfinished.
            let _ = self.abandoned.send(self.command_id);
        }
    }
}

/// Builds the acknowledgement event of a step.
pub(crate) type AckEvent = fn(Ack) -> RawEvent;

/// Acknowledges one command.
pub struct Reply {
    open: Open,
    ack: AckEvent,
    /// `None` for a command that the sidecar itself issued, which needs no acknowledgement.
    spool: Option<Spool>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reply").field(&self.open.command_id).finish()
    }
}

impl Reply {
    pub(crate) fn new(
        id: CommandId,
        ack: AckEvent,
        spool: Spool,
        abandoned: mpsc::UnboundedSender<CommandId>,
    ) -> Self {
        Self { open: Open { command_id: id, abandoned, answered: false }, ack, spool: Some(spool) }
    }

    /// Reply to a command that the sidecar itself issued.
    pub(crate) fn internal(command_id: CommandId, abandoned: mpsc::UnboundedSender<CommandId>) -> Self {
        Self { open: Open { command_id, abandoned, answered: true }, ack: RawEvent::PauseAck, spool: None }
    }

    /// Whether the sidecar itself issued the command. Its resume after an outage is no permission of the owner.
    pub(crate) const fn is_internal(&self) -> bool {
        self.spool.is_none()
    }

    /// Reports that the command was carried out. Durable on return.
    pub async fn done(mut self) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        self.open.answered = true;
        let Some(spool) = &self.spool else { return Ok(()) };
        spool.acknowledge(command_id, (self.ack)(Ack { command_id, step: AckStep::Done }), true).await
    }

    /// Reports that the command will not be carried out.
    pub async fn refuse(mut self, refusal: Refusal) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        self.open.answered = true;
        let Some(spool) = &self.spool else { return Ok(()) };
        spool.acknowledge(command_id, refusal.event(command_id), true).await
    }
}

/// Acknowledges a message. Call [`Self::injecting`], then give the message to the agent, then call
/// [`Self::injected`]. After a crash in between it is unknown whether the agent has the message, and it is never
/// resent silently (decision 30).
pub struct MessageReply {
    open: Open,
    message_id: MessageId,
    /// `None` for a message that the sidecar itself sent, which needs no acknowledgement.
    spool: Option<Spool>,
}

impl std::fmt::Debug for MessageReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MessageReply").field(&self.message_id).finish()
    }
}

impl MessageReply {
    pub(crate) fn new(
        command_id: CommandId,
        message_id: MessageId,
        spool: Spool,
        abandoned: mpsc::UnboundedSender<CommandId>,
    ) -> Self {
        Self { open: Open { command_id, abandoned, answered: false }, message_id, spool: Some(spool) }
    }

    /// Reply to a message that the sidecar itself sent. If the agent does not get the message, `abandoned` receives
    /// `command_id`.
    pub(crate) fn internal(
        command_id: CommandId,
        message_id: MessageId,
        abandoned: mpsc::UnboundedSender<CommandId>,
    ) -> Self {
        Self { open: Open { command_id, abandoned, answered: false }, message_id, spool: None }
    }

    async fn phase(&mut self, phase: MessagePhase) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        // A message of the sidecar itself may be sent again if it was not injected.
        self.open.answered = self.spool.is_some() || phase == MessagePhase::Injected;
        let Some(spool) = &self.spool else { return Ok(()) };
        let ack = RawEvent::MessageAck { command_id, message_id: self.message_id, phase };
        spool.acknowledge(command_id, ack, phase == MessagePhase::Injected).await
    }

    /// Call before the message is given to the agent.
    pub async fn injecting(&mut self) -> Result<(), SpoolError> {
        self.phase(MessagePhase::Injecting).await
    }

    /// Call after the agent has accepted the message.
    pub async fn injected(mut self) -> Result<(), SpoolError> {
        self.phase(MessagePhase::Injected).await
    }

    /// Reports that the agent will not get the message.
    pub async fn refuse(mut self, refusal: Refusal) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        let Some(spool) = &self.spool else { return Ok(()) };
        self.open.answered = true;
        spool.acknowledge(command_id, refusal.event(command_id), true).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::tests::{bodies, open};

    #[tokio::test]
    async fn empty_piece_of_a_log_is_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let events = EventSink::new(open(dir.path()));
        let piece = |content: &str| RawEvent::LogChunk { stream: "agent".into(), content: content.into() };
        events.emit(piece("")).await.unwrap();
        events.emit_all(vec![piece("")]).await.unwrap();
        events.emit_all(vec![piece(""), piece("a"), piece(""), piece("b")]).await.unwrap();
        let stored = bodies(events.spool()).await;
        let contents: Vec<_> = stored.iter().map(|body| body["content"].as_str().unwrap()).collect();
        assert_eq!(contents, ["a", "b"]);
    }
}
