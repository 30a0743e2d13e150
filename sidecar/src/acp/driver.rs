//! The adapter's task: takes commands and what the agent says, one after the other, and tells what comes of it.

use std::collections::VecDeque;
use std::time::Duration;

use pilothouse_domain::RunId;
use pilothouse_domain::value::Capabilities;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::abilities;
use super::agents::Advertised;
use super::compaction::Compaction;
use super::connection::{Connection, Inbound};
use super::files::Folder;
use super::memory::{Conversation, Memory};
use super::messages::Messages;
use super::requests::Requests;
use super::start::{Agent, Starter};
use super::terminals::Terminals;
use super::translator::Translator;
use super::turns::Turn;
use crate::adapter::{AdapterError, AgentCommand, EventSink, Refusal, Reply};
use crate::process::Processes;
use crate::process::in_process::AgentThread;
use crate::spool::SpoolError;

/// How long the input of a call may be streamed before the call is told with what is there.
const STREAMED: Duration = Duration::from_millis(500);

/// Why driving ends.
pub(super) enum Break {
    /// It is to stop, or the conversation is over.
    Over,
    /// It failed.
    Failed(AdapterError),
}

impl From<SpoolError> for Break {
    fn from(e: SpoolError) -> Self {
        Self::Failed(e.into())
    }
}

impl Break {
    /// The agent cannot be driven any further.
    pub(super) fn agent(why: impl Into<String>) -> Self {
        Self::Failed(AdapterError::Agent(why.into()))
    }
}

/// Drives one agent.
pub(super) struct Driver {
    pub(super) run: RunId,
    pub(super) events: EventSink,
    pub(super) commands: mpsc::UnboundedReceiver<AgentCommand>,
    /// Commands that came while the agent was being started.
    pub(super) aside: VecDeque<AgentCommand>,
    pub(super) starter: Starter,
    pub(super) config: AgentSessionConfig,
    /// None: it is not running; the next turn starts it.
    pub(super) agent: Option<Agent>,
    pub(super) advertised: Advertised,
    pub(super) memory: Memory,
    pub(super) conversation: Conversation,
    pub(super) translator: Translator,
    pub(super) requests: Requests,
    pub(super) folder: Folder,
    /// Where files are touched when the agent is another user.
    pub(super) files: Option<AgentThread>,
    pub(super) processes: Processes,
    pub(super) terminals: Terminals,
    pub(super) messages: Messages,
    pub(super) turn: Option<Turn>,
    pub(super) compaction: Option<Compaction>,
    /// Compactions that wait for the end of the turn, and what each is to look out for.
    pub(super) compactions: VecDeque<(Option<String>, Reply)>,
    /// Counts the turns of this run.
    pub(super) turns: u64,
    /// Counts the prompts of this run.
    pub(super) prompts: u64,
    /// Counts what was asked outside any tool call.
    pub(super) asked: u64,
    /// What the agent reads before the words of its next prompt.
    pub(super) introduction: Vec<String>,
    pub(super) paused: bool,
    /// How long the agent may take to end a turn that is interrupted.
    pub(super) cancel: Duration,
    /// What the control plane knows that the agent can do.
    pub(super) told: Capabilities,
    /// When calls are told whose input may still be streamed.
    pub(super) tell_at: Option<Instant>,
}

/// What comes next.
enum Next {
    Command(Option<AgentCommand>),
    Heard(Inbound),
    /// Inputs were streamed for long enough.
    Streamed,
    /// The agent had its time to end a turn.
    GaveUp,
}

impl Driver {
    /// Drives the agent: its first turn, and whatever follows.
    pub(super) async fn drive(
        &mut self,
        notices: Vec<RawEvent>,
        prompt: Option<String>,
    ) -> Result<(), Break> {
        self.introduce_agent(notices).await?;
        if let Some(prompt) = prompt {
            self.begin_turn(vec![prompt], None).await?;
        }
        loop {
            if let Some(command) = self.aside.pop_front() {
                self.command(command).await?;
                continue;
            }
            match self.next().await {
                Next::Command(command) => self.command(command.ok_or(Break::Over)?).await?,
                Next::Heard(inbound) => self.hear(inbound).await?,
                Next::Streamed => {
                    self.tell_at = None;
                    let events = self.translator.time_passed();
                    self.events.emit_all(events).await?;
                }
                Next::GaveUp => self.give_up().await?,
            }
        }
    }

    async fn next(&mut self) -> Next {
        let wait_until = |at: Option<Instant>| async move {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let give_up = self.gives_up_at();
        let Self { agent, commands, paused, tell_at, .. } = self;
        let heard = async {
            match agent {
                Some(agent) => agent.inbound.recv().await.unwrap_or(Inbound::Closed),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = commands.recv() => Next::Command(command),
            // What the agent said before it was paused is told when it goes on: nothing new of the turn is told in between
            // (ruling 15).
            inbound = heard, if !*paused => Next::Heard(inbound),
            () = wait_until(*tell_at), if !*paused => Next::Streamed,
            () = wait_until(give_up) => Next::GaveUp,
        }
    }

    /// Tells of an agent that was started, and hears what it said until its conversation was open: what an earlier one repeats
    /// belongs to no turn.
    pub(super) async fn introduce_agent(&mut self, notices: Vec<RawEvent>) -> Result<(), Break> {
        self.events.emit_all(notices).await?;
        while let Some(inbound) = self.agent.as_mut().and_then(|agent| agent.inbound.try_recv().ok()) {
            match inbound {
                Inbound::Told(method, parameters) => self.told(&method, &parameters).await?,
                Inbound::Asked(method, parameters, responder) => {
                    self.asked(&method, parameters, responder).await?;
                }
                Inbound::Closed => return Err(Break::agent("it ended as soon as its conversation was open")),
                // Nothing was sent to it yet.
                Inbound::Prompted(..) | Inbound::Steered(..) => {}
            }
        }
        self.tell_abilities().await
    }

    async fn hear(&mut self, inbound: Inbound) -> Result<(), Break> {
        match inbound {
            Inbound::Told(method, parameters) => {
                self.told(&method, &parameters).await?;
                self.end_turn_when_subagents_have().await?;
            }
            Inbound::Asked(method, parameters, responder) => {
                self.asked(&method, parameters, responder).await?;
            }
            Inbound::Prompted(number, answer) => self.prompted(number, answer).await?,
            Inbound::Steered(number, answer) => self.steered(number, answer).await?,
            Inbound::Closed => self.agent_ended().await?,
        }
        let waits = self.translator.waits();
        self.tell_at = waits.then(|| self.tell_at.unwrap_or_else(|| Instant::now() + STREAMED));
        self.tell_abilities().await
    }

    /// Tells what the agent can do, when that is not what was told.
    async fn tell_abilities(&mut self) -> Result<(), Break> {
        let capabilities = abilities::of(&self.advertised, &self.translator);
        if capabilities == self.told {
            return Ok(());
        }
        self.told = capabilities;
        let ready = RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: super::Acp::NAME.into(),
            capabilities,
        };
        Ok(self.events.emit(ready).await?)
    }

    async fn told(&mut self, method: &str, parameters: &Value) -> Result<(), Break> {
        if method != "session/update" {
            // Extensions of vendors begin with `_`: their own business.
            tracing::debug!(method, "the agent told something that is not listened to");
            return Ok(());
        }
        if let Some(compaction) = &mut self.compaction {
            compaction.hear(parameters);
        }
        let terminals = &self.terminals;
        let events = self.translator.update(parameters, &|id| terminals.printed(id));
        self.tell(events).await
    }

    /// Tells events; a total is kept before it is told: told again it is the same, forgotten it would go down.
    pub(super) async fn tell(&mut self, events: Vec<RawEvent>) -> Result<(), Break> {
        if events.iter().any(|event| matches!(event, RawEvent::UsageUpdate(_))) {
            self.conversation.totals = self.translator.meter.totals().clone();
            self.keep()?;
        }
        Ok(self.events.emit_all(events).await?)
    }

    /// Keeps what outlives the run.
    pub(super) fn keep(&self) -> Result<(), Break> {
        let kept = self.memory.save(&self.conversation);
        kept.map_err(|e| Break::agent(format!("its conversation's state cannot be kept: {e}")))
    }

    /// The connection to the agent that runs.
    pub(super) fn connection(&self) -> Result<&Connection, Break> {
        let agent = self.agent.as_ref().ok_or_else(|| Break::agent("it is not running"))?;
        Ok(&agent.connection)
    }

    async fn command(&mut self, command: AgentCommand) -> Result<(), Break> {
        match command {
            AgentCommand::Begin(_, reply) => {
                Ok(reply.refuse(Refusal::invalid("the agent was started before")).await?)
            }
            AgentCommand::Message(message, reply) => self.message(message, reply).await,
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => {
                self.pause();
                Ok(reply.done().await?)
            }
            AgentCommand::Resume(reply) => {
                self.go_on();
                reply.done().await?;
                self.go_on_with_messages().await
            }
            AgentCommand::Reload(config, reply) => self.reload(*config, reply).await,
            AgentCommand::Adjust(adjustment, reply) => self.adjust(adjustment, reply).await,
            AgentCommand::Answer(request, answers, reply) => {
                if self.requests.answer(&request, &answers) {
                    return Ok(reply.done().await?);
                }
                Ok(reply.refuse(Refusal::invalid("the agent does not wait for this")).await?)
            }
            AgentCommand::PlanDecision(decision, reply) => self.decide(decision, reply).await,
        }
    }

    /// Ends the agent with all that it started.
    pub(super) async fn end(mut self) {
        self.terminals.kill_all().await;
        self.end_agent().await;
    }
}
