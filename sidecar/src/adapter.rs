//! The port to an agent runtime.
//!
//! An adapter is a task: it takes [`AgentCommand`]s from a channel in the order in which they were issued, and
//! emits raw events. Each command carries the handle that acknowledges it, so that `done` is said by the one who
//! knows that it is done. Everything that an adapter says is durable when the call returns, which is what makes
//! ruling 15 simple to keep: after `reply.done().await` of pause or interrupt, emit nothing new of that turn.

use async_trait::async_trait;
use pilothouse_domain::value::{Adjustment, Answer, Capabilities, MessagePriority, MessageSource};
use pilothouse_domain::{CommandId, MessageId, ToolCallId, TurnId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use pilothouse_wire::event::{Ack, AckStep, MessagePhase};
use pilothouse_wire::launch::SidecarLaunch;
use tokio::sync::mpsc;

use crate::process::Processes;
use crate::redaction::Redactor;
use crate::spool::{Outgoing, Spool, SpoolError};

/// Drives one agent.
#[async_trait]
pub trait Adapter: Send {
    /// The name that sessions ask for it by.
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Drives the agent until its conversation is over or the channel of commands closes, which means: stop. The
    /// first command is [`AgentCommand::Begin`]. When this returns, nothing of the agent is left running. Dropping
    /// the future must have the same effect; it happens to an adapter that does not stop in time.
    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError>;
}

/// An agent that could not be driven any further.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// What was said could not be spooled.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The configuration is not one that the adapter can use.
    #[error("the configuration of the adapter is not valid: {0}")]
    Configuration(String),
    /// The agent's process or connection failed.
    #[error("the agent failed: {0}")]
    Agent(String),
}

/// What an adapter works with.
pub struct AgentContext {
    /// What the run was launched with.
    pub launch: std::sync::Arc<SidecarLaunch>,
    /// Where its events go.
    pub events: EventSink,
    /// What it is asked to do.
    pub commands: mpsc::UnboundedReceiver<AgentCommand>,
    /// Starts the agent's processes and those of its tools.
    pub processes: Processes,
}

/// What an adapter is asked to do. Stopping is not among it: that is the end of the channel.
#[derive(Debug)]
pub enum AgentCommand {
    /// Start the agent; always the first.
    Begin(Box<Begin>, Reply),
    /// Give it a message.
    Message(Message, MessageReply),
    /// End the current turn without `turn_completed`.
    Interrupt(Reply),
    /// Suspend.
    Pause(Reply),
    /// Go on.
    Resume(Reply),
    /// Take a new configuration.
    Reload(Box<AgentSessionConfig>, Reply),
    /// Work differently from here on; what that changes is told by `agent_settings`.
    Adjust(Adjustment, Reply),
    /// The owner's answers to a question.
    Answer(ToolCallId, Vec<Answer>, Reply),
    /// The owner's decision on a plan.
    PlanDecision(PlanDecision, Reply),
}

/// A message for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its text.
    pub content: String,
    /// Into the running turn, or after it.
    pub priority: MessagePriority,
    /// Who says it.
    pub source: MessageSource,
    /// The turn that it is meant for; when that is over: [`Refusal::turn_over`].
    pub expected_turn: Option<TurnId>,
}

/// The owner's decision on a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDecision {
    /// The tool call that showed the plan.
    pub request: ToolCallId,
    /// Whether the agent may proceed.
    pub approved: bool,
    /// What to change, when it may not.
    pub feedback: Option<String>,
}

/// Sees what an adapter says before it is spooled, and decides what is told in its place.
#[async_trait]
pub trait Gate: Send + Sync {
    /// What is told in place of `event`.
    async fn pass(&self, event: RawEvent) -> Result<Vec<RawEvent>, SpoolError>;
}

/// Takes raw events; each is durable when the call returns.
#[derive(Clone)]
pub struct EventSink {
    spool: Spool,
    gate: Option<std::sync::Arc<dyn Gate>>,
}

impl EventSink {
    /// A sink into `spool`.
    pub const fn new(spool: Spool) -> Self {
        Self { spool, gate: None }
    }

    /// The same sink behind a gate.
    #[must_use]
    pub fn behind(&self, gate: std::sync::Arc<dyn Gate>) -> Self {
        Self { spool: self.spool.clone(), gate: Some(gate) }
    }

    /// Spools an event.
    pub async fn emit(&self, event: RawEvent) -> Result<(), SpoolError> {
        if self.gate.is_some() {
            return self.emit_all(vec![event]).await;
        }
        self.spool.append(Outgoing::event(event)?).await.map(drop)
    }

    /// Spools several together: all or none, one write.
    pub async fn emit_all(&self, events: Vec<RawEvent>) -> Result<(), SpoolError> {
        let events = match &self.gate {
            Some(gate) => {
                let mut passed = Vec::with_capacity(events.len());
                for event in events {
                    passed.extend(gate.pass(event).await?);
                }
                passed
            }
            None => events,
        };
        if events.is_empty() {
            return Ok(());
        }
        let outgoing = events.into_iter().map(Outgoing::event).collect::<Result<_, _>>()?;
        self.spool.append_all(outgoing).await.map(drop)
    }

    /// Has a value left out of everything that is told from here on, as those are that the sidecar knows by itself.
    pub fn keep_secret(&self, secret: &str) {
        self.redactor().keep(secret);
    }

    /// A text without the secrets that are kept out of what is told, for a log.
    pub fn redacted(&self, text: &str) -> String {
        self.redactor().text(text).unwrap_or_else(|| text.to_owned())
    }

    /// What leaves out secrets, for texts that are told in pieces.
    pub const fn redactor(&self) -> &Redactor {
        self.spool.redactor()
    }

    /// The spool beneath, for what only a script asks for.
    pub(crate) const fn spool(&self) -> &Spool {
        &self.spool
    }
}

/// Why a command is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable code.
    pub code: &'static str,
    /// A sentence for a person.
    pub message: String,
}

impl Refusal {
    /// The adapter has no way to do it.
    pub fn not_supported(what: &str) -> Self {
        Self { code: "not-supported", message: format!("this agent does not support `{what}`") }
    }

    /// The turn that a message was meant for is over (ruling 30).
    pub fn turn_over(turn: &TurnId) -> Self {
        Self { code: "turn-over", message: format!("the turn {turn} is over") }
    }

    /// There is no agent, or none any more.
    pub fn no_agent() -> Self {
        Self { code: "no-agent", message: "no agent is running".into() }
    }

    /// The command makes no sense now.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: "invalid", message: message.into() }
    }

    pub(crate) fn event(self, command_id: CommandId) -> RawEvent {
        RawEvent::CommandRefused { command_id, code: self.code.into(), message: self.message }
    }
}

/// What every reply needs. One that is dropped without an answer is refused with `no-agent`: its agent is gone.
#[derive(Debug)]
struct Open {
    command_id: CommandId,
    abandoned: mpsc::UnboundedSender<CommandId>,
    answered: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.answered {
            // Nobody listens when the whole sidecar ends; the spool still knows that it is open.
            let _ = self.abandoned.send(self.command_id);
        }
    }
}

/// Makes the acknowledgement of a step.
pub(crate) type AckEvent = fn(Ack) -> RawEvent;

/// Acknowledges one command.
pub struct Reply {
    open: Open,
    ack: AckEvent,
    spool: Spool,
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
        Self { open: Open { command_id: id, abandoned, answered: false }, ack, spool }
    }

    /// It is done. Durable on return.
    pub async fn done(mut self) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        self.open.answered = true;
        self.spool.acknowledge(command_id, (self.ack)(Ack { command_id, step: AckStep::Done }), true).await
    }

    /// It will not be done.
    pub async fn refuse(mut self, refusal: Refusal) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        self.open.answered = true;
        self.spool.acknowledge(command_id, refusal.event(command_id), true).await
    }
}

/// Acknowledges a message: [`Self::injecting`], then give it to the agent, then [`Self::injected`]. A crash in
/// between leaves it uncertain, and it is never resent silently (ruling 30).
pub struct MessageReply {
    open: Open,
    message_id: MessageId,
    /// None: the sidecar itself sent the message, and nobody waits for an acknowledgement.
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

    /// For a message of the sidecar itself. When the agent does not get it, `command_id` comes out of `abandoned`.
    pub(crate) fn internal(
        command_id: CommandId,
        message_id: MessageId,
        abandoned: mpsc::UnboundedSender<CommandId>,
    ) -> Self {
        Self { open: Open { command_id, abandoned, answered: false }, message_id, spool: None }
    }

    async fn phase(&mut self, phase: MessagePhase) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        // A message of the sidecar itself that was not injected is lost, and may be sent again.
        self.open.answered = self.spool.is_some() || phase == MessagePhase::Injected;
        let Some(spool) = &self.spool else { return Ok(()) };
        let ack = RawEvent::MessageAck { command_id, message_id: self.message_id, phase };
        spool.acknowledge(command_id, ack, phase == MessagePhase::Injected).await
    }

    /// The agent is about to get it.
    pub async fn injecting(&mut self) -> Result<(), SpoolError> {
        self.phase(MessagePhase::Injecting).await
    }

    /// The agent has it.
    pub async fn injected(mut self) -> Result<(), SpoolError> {
        self.phase(MessagePhase::Injected).await
    }

    /// The agent will not get it.
    pub async fn refuse(mut self, refusal: Refusal) -> Result<(), SpoolError> {
        let command_id = self.open.command_id;
        // Without an acknowledgement, dropping it says that the message was lost.
        let Some(spool) = &self.spool else { return Ok(()) };
        self.open.answered = true;
        spool.acknowledge(command_id, refusal.event(command_id), true).await
    }
}
