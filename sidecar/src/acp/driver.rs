//! The driver: processes commands and the agent's messages one at a time, and publishes the resulting events.

use std::collections::VecDeque;
use std::time::Duration;

use pilothouse_domain::RunId;
use pilothouse_domain::value::Capabilities;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::agents::Advertised;
use super::capabilities;
use super::connection::{Connection, Inbound};
use super::conversation_file::{Conversation, ConversationFile};
use super::file_requests::FileRequests;
use super::files::Folder;
use super::limit::Spending;
use super::requests::{Answered, Requests};
use super::start::{Agent, Starter};
use super::terminals::Terminals;
use super::translator::Translator;
use super::verdicts::{GatedRequest, Verdicts};
use super::waiting::{Messages, OwnPrompt, Waiting};
use super::work::{Compaction, Turn};
use crate::adapter::{AgentCommand, EventSink, Refusal};
use crate::kit::authorizer::{Authorization, Authorizer};
use crate::kit::deferral::{PendingCompactions, wait_until};
use crate::kit::images::Images;
use crate::kit::json::text_at;
use crate::kit::outage::Outage;
use crate::kit::start::ConfirmedStops;
use crate::kit::turns::DriverExit;
use crate::own_tools::Requests as OwnRequests;
use crate::process::Processes;

/// How long to wait for streamed input of a call before the call is published.
const STREAMED: Duration = Duration::from_millis(500);

pub(super) struct Driver {
    pub(super) run: RunId,
    pub(super) events: EventSink,
    pub(super) commands: mpsc::UnboundedReceiver<AgentCommand>,
    /// Commands that arrived while the agent was starting.
    pub(super) deferred_commands: VecDeque<AgentCommand>,
    pub(super) starter: Starter,
    /// Loads the images of messages.
    pub(super) images: Images,
    pub(super) config: AgentSessionConfig,
    /// `None` while it is not running. The next turn starts it.
    pub(super) agent: Option<Agent>,
    pub(super) advertised: Advertised,
    pub(super) conversation_file: ConversationFile,
    pub(super) conversation: Conversation,
    pub(super) translator: Translator,
    pub(super) requests: Requests,
    /// Of Pilothouse's own tools.
    pub(super) own_requests: OwnRequests,
    /// Authorizes tool calls, if the session belongs to a project.
    pub(super) authorizer: Option<Authorizer>,
    pub(super) verdicts: Verdicts,
    pub(super) folder: Folder,
    pub(super) files: FileRequests,
    pub(super) processes: Processes,
    pub(super) terminals: Terminals,
    pub(super) messages: Messages,
    pub(super) turn: Option<Turn>,
    pub(super) compaction: Option<Compaction>,
    pub(super) compactions: PendingCompactions,
    pub(super) turns: u64,
    pub(super) prompts: u64,
    /// Number of requests to the owner outside of tool calls.
    pub(super) question_count: u64,
    /// Texts to put before the next prompt.
    pub(super) introduction: Vec<String>,
    /// Prompts that an interrupt withdrew before the agent had them. They follow the introduction.
    pub(super) withdrawn: Vec<OwnPrompt>,
    pub(super) paused: bool,
    /// How long the agent may take to end an interrupted turn.
    pub(super) cancel: Duration,
    pub(super) spending: Spending,
    pub(super) outage: Outage,
    /// Requests of the agent since its allowance was spent.
    pub(super) deferred_requests: VecDeque<Inbound>,
    /// The capabilities that the control plane knows.
    pub(super) published_capabilities: Capabilities,
    /// When to publish calls whose input may still be streaming.
    pub(super) publish_calls_at: Option<Instant>,
}

enum DriverEvent {
    Command(Option<AgentCommand>),
    Inbound(Inbound),
    Verdict(GatedRequest, Authorization),
    /// A request for a file was carried out.
    FileAnswered,
    /// Time to publish calls with streamed input.
    Streamed,
    /// The time for the agent to announce a call that it asks about is over.
    Unannounced,
    /// The time for the agent to end the commands of an interrupted turn is over.
    ToolsAreLate,
    /// The time for the agent to end a turn is over.
    GaveUp,
}

impl Driver {
    /// Runs the first turn and everything that follows. `stops` were confirmed during the start.
    pub(super) async fn drive(
        &mut self,
        notices: Vec<RawEvent>,
        task: Option<OwnPrompt>,
        stops: ConfirmedStops,
    ) -> Result<(), DriverExit> {
        self.introduce_agent(notices).await?;
        if stops.paused {
            self.spending.paused = true;
            self.suspend();
        }
        if let Some(task) = task {
            self.hold_when_unmetered();
            if stops.interrupted {
                self.withdrawn.push(task);
            } else if stops.paused {
                self.messages.waiting.push(Waiting::Own(task));
            } else {
                self.begin_turn(Waiting::Own(task)).await?;
            }
        }
        loop {
            if let Some(command) = self.deferred_commands.pop_front() {
                Box::pin(self.command(command)).await?;
                continue;
            }
            if !self.paused
                && let Some(inbound) = self.deferred_requests.pop_front()
            {
                Box::pin(self.handle(inbound)).await?;
                continue;
            }
            if !self.paused
                && let Some((request, decision)) = self.verdicts.decided.pop_front()
            {
                self.settle(request, decision);
                continue;
            }
            match self.next_event().await {
                DriverEvent::Command(command) => {
                    Box::pin(self.command(command.ok_or(DriverExit::Over)?)).await?;
                }
                DriverEvent::Inbound(inbound) => Box::pin(self.handle(inbound)).await?,
                DriverEvent::Verdict(request, authorization) => {
                    self.verdict_arrived(request, authorization).await?;
                }
                DriverEvent::FileAnswered => {}
                DriverEvent::Streamed => {
                    self.publish_calls_at = None;
                    let events = self.translator.publish_streamed_calls();
                    self.emit(events).await?;
                }
                DriverEvent::Unannounced => self.take_announced(),
                DriverEvent::ToolsAreLate => self.end_tools(),
                DriverEvent::GaveUp => self.give_up().await?,
            }
        }
    }

    async fn next_event(&mut self) -> DriverEvent {
        let (give_up, tools_end) = (self.gives_up_at(), self.tools_end_at());
        let announced = self.requests.announced_until();
        let Self { agent, commands, files, paused, publish_calls_at, verdicts, .. } = self;
        let is_full = files.is_full();
        let heard = async {
            match agent {
                Some(agent) => agent.inbound.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = commands.recv() => DriverEvent::Command(command),
            // Before the messages, so that a steady flow of them does not keep the requests waiting.
            () = files.advance(), if !*paused => DriverEvent::FileAnswered,
            // After a pause, the turn publishes no events (decision 15). Messages that the agent sent before it are
            // published after the resume.
            inbound = heard, if !*paused && !is_full => DriverEvent::Inbound(inbound),
            Some((request, authorization)) = verdicts.next(), if !*paused => {
                DriverEvent::Verdict(request, authorization)
            }
            () = wait_until(*publish_calls_at), if !*paused => DriverEvent::Streamed,
            () = wait_until(announced), if !*paused => DriverEvent::Unannounced,
            () = wait_until(tools_end) => DriverEvent::ToolsAreLate,
            () = wait_until(give_up) => DriverEvent::GaveUp,
        }
    }

    /// Publishes that the agent was started, and processes its messages up to the opening of its conversation. Updates
    /// of a resumed conversation belong to no turn.
    pub(super) async fn introduce_agent(&mut self, notices: Vec<RawEvent>) -> Result<(), DriverExit> {
        self.events.emit_all(notices).await?;
        while let Some(inbound) = self.agent.as_mut().and_then(|agent| agent.inbound.next_waiting()) {
            match inbound {
                Inbound::Notification(method, parameters) => {
                    self.handle_notification(&method, &parameters).await?;
                }
                Inbound::Request(method, parameters, responder) => {
                    self.handle_request(&method, parameters, responder).await?;
                }
                Inbound::Closed => {
                    return Err(DriverExit::agent("it ended as soon as its conversation was open"));
                }
                // No prompt was sent yet.
                Inbound::Prompted(..) | Inbound::Steered(..) => {}
            }
        }
        self.emit_capabilities().await
    }

    async fn handle(&mut self, inbound: Inbound) -> Result<(), DriverExit> {
        let Some(inbound) = self.defer_when_spent(inbound).await? else { return Ok(()) };
        match inbound {
            Inbound::Notification(method, parameters) => {
                self.handle_notification(&method, &parameters).await?;
                self.end_turn_when_subagents_have().await?;
            }
            Inbound::Request(method, parameters, responder) => {
                self.handle_request(&method, parameters, responder).await?;
            }
            Inbound::Prompted(number, response) => self.prompted(number, response).await?,
            Inbound::Steered(number, response) => self.steered(number, response).await?,
            Inbound::Closed => self.agent_ended().await?,
        }
        let waits = self.translator.waits();
        self.publish_calls_at =
            waits.then(|| self.publish_calls_at.unwrap_or_else(|| Instant::now() + STREAMED));
        self.hold_when_spent().await?;
        self.emit_capabilities().await
    }

    async fn emit_capabilities(&mut self) -> Result<(), DriverExit> {
        let capabilities = capabilities::of(&self.advertised, &self.translator);
        if capabilities == self.published_capabilities {
            return Ok(());
        }
        self.published_capabilities = capabilities;
        let ready = RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: super::Acp::NAME.into(),
            capabilities,
        };
        Ok(self.events.emit(ready).await?)
    }

    async fn handle_notification(&mut self, method: &str, parameters: &Value) -> Result<(), DriverExit> {
        if method != "session/update" {
            // Names of vendor extensions begin with `_`.
            tracing::debug!(method, "ignoring an unknown notification of the agent");
            return Ok(());
        }
        if let Some(compaction) = &mut self.compaction {
            compaction.handle(parameters);
        }
        if let Some(agent) = &mut self.agent
            && is_call(parameters)
        {
            agent.process.tools.call_begins();
        }
        if let Some(turn) = &mut self.turn
            && is_reaction(parameters)
        {
            turn.unread = None;
            self.outage.answered();
        }
        let terminals = &self.terminals;
        let events = self.translator.update(parameters, &|id| terminals.printed(id));
        self.take_announced();
        let denied = self.denied_subagent(&events);
        self.emit(events).await?;
        if let Some((kind, written)) = self.translator.take_draft() {
            self.events.drafts().write(kind, &written);
        }
        match denied {
            Some(why) => self.end_denied_subagent(&why).await,
            None => Ok(()),
        }
    }

    /// Publishes events. Saves the totals first: to repeat a total does no harm, but after a lost one the totals would
    /// decrease. Also saves the conversation's summary, in case the agent loses the conversation.
    pub(super) async fn emit(&mut self, events: Vec<RawEvent>) -> Result<(), DriverExit> {
        let mut changed = false;
        for event in &events {
            if matches!(event, RawEvent::UsageUpdate(_)) {
                self.conversation.totals = self.translator.meter.totals().clone();
                changed = true;
            }
            changed |= self.conversation.summary.take(event, true, |text| self.events.redacted(text));
        }
        if changed {
            self.save_conversation().await?;
        }
        for (call, paths) in self.translator.calls.take_written() {
            self.events.call_writes(&call, &paths);
        }
        Ok(self.events.emit_all(events).await?)
    }

    /// Adds a message to the agent to the conversation's summary.
    pub(super) async fn record_prompt(&mut self, words: &str) -> Result<(), DriverExit> {
        self.conversation.summary.record_message(&self.events.redacted(words));
        self.save_conversation().await
    }

    pub(super) async fn save_conversation(&mut self) -> Result<(), DriverExit> {
        let kept = self.events.until_space(|| self.conversation_file.save(&self.conversation)).await;
        kept.map_err(|e| DriverExit::agent(format!("failed to save the state of its conversation: {e}")))
    }

    pub(super) fn connection(&self) -> Result<&Connection, DriverExit> {
        let agent = self.agent.as_ref().ok_or_else(|| DriverExit::agent("it is not running"))?;
        Ok(&agent.connection)
    }

    async fn command(&mut self, command: AgentCommand) -> Result<(), DriverExit> {
        match command {
            AgentCommand::Begin(_, reply) => Ok(reply.refuse(Refusal::already_started()).await?),
            AgentCommand::Message(message, reply) => self.message(message, reply).await,
            AgentCommand::Interrupt(reply) => {
                (self.spending.paused, self.spending.held) = (false, false);
                self.interrupt(reply).await
            }
            AgentCommand::Pause(reply) => {
                self.spending.paused = true;
                self.pause(reply).await
            }
            AgentCommand::Resume(reply) => {
                self.spending.paused = false;
                if reply.is_internal() {
                    // The end of an outage permits nothing: an agent that is held for its spend stays held.
                    if self.spending.held {
                        return Ok(reply.done().await?);
                    }
                } else {
                    // The owner has raised the cap or permits unmetered work (decision 32).
                    self.spending.held = false;
                    self.spending.allow_unmetered |= self.published_capabilities.unmetered;
                }
                self.resume_agent();
                reply.done().await?;
                self.continue_turn().await?;
                self.deliver_messages().await
            }
            AgentCommand::Reload(config, reply) => self.reload(*config, reply).await,
            AgentCommand::Adjust(adjustment, reply) => self.adjust(adjustment, reply).await,
            AgentCommand::Answer(owner, reply) if self.own_requests.waits_for(&owner.request) => {
                Ok(self.own_requests.settle_answer(owner, reply).await?)
            }
            AgentCommand::Answer(owner, reply) => {
                if owner.modified_input.is_some() {
                    return Ok(reply.refuse(Refusal::not_modifiable()).await?);
                }
                match self.requests.answer(owner) {
                    Answered::NotAwaited => return Ok(reply.refuse(Refusal::not_awaited()).await?),
                    Answered::Decided(request, decision) if self.paused => {
                        self.verdicts.decided.push_back((*request, decision));
                    }
                    Answered::Decided(request, decision) => self.settle(*request, decision),
                    Answered::Responded => {}
                }
                Ok(reply.done().await?)
            }
            AgentCommand::PlanDecision(decision, reply) => self.decide(decision, reply).await,
        }
    }

    /// Ends the agent and everything that it started.
    pub(super) async fn end(mut self) {
        self.terminals.kill_all().await;
        self.end_agent().await;
    }
}

/// Whether an update is a part of the agent's response to a prompt.
fn is_reaction(parameters: &Value) -> bool {
    let kind = text_at(parameters, &["update", "sessionUpdate"]);
    is_call(parameters) || matches!(kind, Some("agent_message_chunk" | "agent_thought_chunk"))
}

/// Whether an update is about a tool call.
fn is_call(parameters: &Value) -> bool {
    text_at(parameters, &["update", "sessionUpdate"]).is_some_and(|kind| kind.starts_with("tool_call"))
}
