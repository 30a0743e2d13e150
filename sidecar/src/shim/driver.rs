//! The driver: processes commands and the shim's events one at a time, and publishes the resulting events.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use pilothouse_domain::value::{Adjustment, Capabilities, DraftKind};
use pilothouse_domain::{RunId, ToolCallId, Usd};
use pilothouse_shim::error::CallError;
use pilothouse_shim::event::ToolApproval;
use pilothouse_shim::message::AgentState;
use pilothouse_shim::stream::StreamEvent;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::meter::Meter;
use super::open_decisions::Decisions;
use super::options::Launch;
use super::saved_state::{Conversation, StateFolder};
use super::start::{Running, Starter};
use super::translator::Translator;
use super::turn::Turn;
use crate::adapter::{AgentCommand, EventSink, Refusal, Reply};
use crate::kit::allowance::{Allowance, exceeded};
use crate::kit::authorizer::{Authorization, Authorizer};
use crate::kit::deferral::wait_until;
use crate::kit::messages::MessageQueue;
use crate::kit::outage::Outage;
use crate::kit::turns::DriverExit;
use crate::own_tools::Requests as OwnRequests;

/// Failed health checks in a row after which a shim counts as crashed (S2).
const UNHEALTHY: u32 = 3;

/// Why the agent's processes are stopped.
#[derive(Debug, Default)]
pub(super) struct Stops {
    pub(super) owner: bool,
    /// The allowance is spent.
    pub(super) spent: bool,
    /// The agent does not report its cost, and has no permission to work.
    pub(super) unmetered: bool,
}

impl Stops {
    pub(super) const fn any(&self) -> bool {
        self.owner || self.spent || self.unmetered
    }
}

/// Missing events whose replay was requested.
pub(super) struct Gap {
    pub(super) missing: RangeInclusive<u64>,
    pub(super) until: Instant,
}

pub(super) struct Driver {
    pub(super) run: RunId,
    pub(super) events: EventSink,
    pub(super) commands: mpsc::UnboundedReceiver<AgentCommand>,
    /// Commands that arrived during a request to the shim.
    pub(super) deferred_commands: VecDeque<AgentCommand>,
    pub(super) starter: Starter,
    pub(super) launch: Launch,
    pub(super) config: AgentSessionConfig,
    /// `None` while it is not running. The next turn starts it.
    pub(super) shim: Option<Running>,
    pub(super) folder: StateFolder,
    pub(super) conversation: Conversation,
    pub(super) meter: Meter,
    pub(super) translator: Translator,
    pub(super) decisions: Decisions,
    pub(super) own_requests: OwnRequests,
    /// Authorizes tool calls, if the session belongs to a project.
    pub(super) authorizer: Option<Authorizer>,
    pub(super) messages: MessageQueue,
    pub(super) turn: Option<Turn>,
    pub(super) turns: u64,
    pub(super) outage: Outage,
    /// Texts to put before the next description.
    pub(super) introduction: Vec<String>,
    /// The first prompt, if the agent was paused during its start. It begins a turn after the resume.
    pub(super) prompt: Option<String>,
    /// Prompts that an interrupt withdrew before the agent had them. They precede the text of the next turn.
    pub(super) withdrawn: Vec<String>,
    pub(super) stops: Stops,
    /// The state that the shim returned for a pause, for `/resume`.
    pub(super) paused_state: Option<AgentState>,
    pub(super) gap: Option<Gap>,
    /// The kind of a text that is not shown while the agent writes it, because it began while events were missing.
    pub(super) skipped_draft: Option<DraftKind>,
    /// Requests for events that were missed.
    pub(super) replays: JoinSet<Result<(), CallError>>,
    pub(super) health_due: Instant,
    pub(super) failed_checks: u32,
    pub(super) allowance: Allowance,
    pub(super) allow_unmetered: bool,
    /// Repaired and dropped events.
    pub(super) repairs: u32,
    /// The capabilities that the control plane knows.
    pub(super) published: Capabilities,
}

enum DriverEvent {
    Command(Option<AgentCommand>),
    Stream(StreamEvent),
    /// The process of the shim has ended.
    Exited,
    Verdict(ToolCallId, ToolApproval, Authorization),
    /// The time to send a pending resolution.
    ResolutionDue,
    /// The time for missing events is over, or the shim cannot send them.
    GapOver,
    Replayed(Result<(), CallError>),
    /// The time to start a waiting turn.
    StartTurn,
    CheckHealth,
}

impl Driver {
    pub(super) async fn drive(&mut self) -> Result<(), DriverExit> {
        loop {
            if let Some(command) = self.deferred_commands.pop_front() {
                self.command(command).await?;
                continue;
            }
            match self.next_event().await {
                DriverEvent::Command(command) => self.command(command.ok_or(DriverExit::Over)?).await?,
                DriverEvent::Stream(event) => self.stream_event(event).await?,
                DriverEvent::Exited => self.shim_ended(None).await?,
                DriverEvent::Verdict(id, approval, authorization) => {
                    self.verdict_arrived(id, approval, authorization).await?;
                }
                DriverEvent::ResolutionDue => self.send_pending_resolutions().await?,
                DriverEvent::GapOver => self.give_up_gap().await?,
                DriverEvent::Replayed(outcome) => self.replayed(&outcome),
                DriverEvent::StartTurn => self.start_turn().await?,
                DriverEvent::CheckHealth => self.check_health().await?,
            }
            self.hold_when_spent().await?;
        }
    }

    async fn next_event(&mut self) -> DriverEvent {
        let runs = !self.stops.any();
        let start_at = self.turn.as_ref().and_then(Turn::starts_at).filter(|_| runs);
        let gap_over = self.gap.as_ref().map(|gap| gap.until);
        let health_due = self.health_due;
        let resolution_due = self.decisions.resolution_due();
        let Self { shim, commands, decisions, replays, .. } = self;
        let shim = async {
            match shim {
                Some(shim) => tokio::select! {
                    biased;
                    // After a pause, the turn publishes no events (decision 15). Later ones are read after the resume.
                    event = shim.stream.next(), if runs => DriverEvent::Stream(event),
                    _ = shim.process.wait() => DriverEvent::Exited,
                    () = tokio::time::sleep_until(health_due), if runs => DriverEvent::CheckHealth,
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = commands.recv() => DriverEvent::Command(command),
            event = shim => event,
            (id, approval, authorization) = decisions.next_verdict(), if runs => {
                DriverEvent::Verdict(id, approval, authorization)
            }
            () = wait_until(resolution_due), if runs => DriverEvent::ResolutionDue,
            Some(outcome) = replays.join_next() => DriverEvent::Replayed(outcome.unwrap_or(Ok(()))),
            () = wait_until(gap_over), if runs => DriverEvent::GapOver,
            () = wait_until(start_at) => DriverEvent::StartTurn,
        }
    }

    async fn command(&mut self, command: AgentCommand) -> Result<(), DriverExit> {
        match command {
            AgentCommand::Begin(_, reply) => Ok(reply.refuse(Refusal::already_started()).await?),
            AgentCommand::Message(message, reply) => self.message(message, reply).await,
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => self.pause(reply).await,
            AgentCommand::Resume(reply) if reply.is_internal() => self.resume_after_outage(reply).await,
            AgentCommand::Resume(reply) => {
                self.allow_unmetered |= self.stops.unmetered;
                (self.stops.spent, self.stops.unmetered) = (false, false);
                self.resume(Some(reply)).await
            }
            AgentCommand::Reload(config, reply) => self.reload(*config, reply).await,
            AgentCommand::Adjust(Adjustment::SetAllowance { allowance_usd }, reply) => {
                self.set_allowance(allowance_usd.as_deref(), reply).await
            }
            AgentCommand::Adjust(_, reply) => Ok(reply.refuse(Refusal::not_supported("adjust")).await?),
            AgentCommand::Answer(owner, reply) if self.own_requests.waits_for(&owner.request) => {
                Ok(self.own_requests.settle_answer(owner, reply).await?)
            }
            AgentCommand::Answer(owner, reply) => self.answer(owner, reply).await,
            AgentCommand::PlanDecision(_, reply) => Ok(reply.refuse(Refusal::not_awaited()).await?),
        }
    }

    /// Between turns. The next turn continues the agent with the new brief.
    async fn reload(&mut self, config: AgentSessionConfig, reply: Reply) -> Result<(), DriverExit> {
        if self.turn.is_some() || self.stops.any() {
            return Ok(reply.refuse(Refusal::invalid("the agent is at work, or is paused")).await?);
        }
        let launch = match Launch::read(&config.adapter_options, |name| std::env::var(name).ok()) {
            Ok(launch) => launch,
            Err(why) => return Ok(reply.refuse(Refusal::invalid(why)).await?),
        };
        // Another program may be named, and the same one must not keep the old instructions.
        self.end_shim().await?;
        (self.launch, self.config) = (launch, config);
        Ok(reply.done().await?)
    }

    async fn check_health(&mut self) -> Result<(), DriverExit> {
        self.health_due = Instant::now() + self.launch.limits.health;
        let Some(shim) = &self.shim else { return Ok(()) };
        let client = shim.client.clone();
        let Some(checked) = self.uninterrupted(async move { client.health().await }).await else {
            return Err(DriverExit::Over);
        };
        self.failed_checks = if checked.is_ok() { 0 } else { self.failed_checks + 1 };
        match checked {
            Err(error) if self.failed_checks >= UNHEALTHY => {
                let why = format!("it failed {UNHEALTHY} health checks in a row ({error})");
                self.shim_ended(Some(why)).await
            }
            _ => Ok(()),
        }
    }

    /// Waits for work while commands are deferred. `None` if the agent must stop.
    pub(super) async fn uninterrupted<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        crate::kit::deferral::while_commands_wait(&mut self.commands, &mut self.deferred_commands, work).await
    }

    /// Publishes events, and adds them to the summary of the conversation.
    pub(super) async fn emit(&mut self, events: Vec<RawEvent>) -> Result<(), DriverExit> {
        let mut changed = false;
        for event in &events {
            changed |= self.conversation.summary.take(event, true, |text| self.events.redacted(text));
        }
        if changed {
            self.save().await?;
        }
        Ok(self.events.emit_all(events).await?)
    }

    pub(super) async fn save(&mut self) -> Result<(), DriverExit> {
        if let Some(last) = self.shim.as_ref().and_then(|shim| shim.last.as_ref()) {
            self.conversation.run.clone_from(&last.run_id);
            self.conversation.last_sequence = last.sequence.unwrap_or(self.conversation.last_sequence);
        }
        self.conversation.totals.clone_from(&self.meter.totals);
        Ok(self.events.until_space(|| self.folder.save(&self.conversation)).await?)
    }

    pub(super) async fn keep_state(&mut self, state: &AgentState) -> Result<(), DriverExit> {
        let Self { folder, conversation, events, .. } = self;
        events.until_space(|| folder.keep(conversation, state)).await?;
        self.publish_capabilities().await
    }

    /// The capabilities of the shim, as far as they are known.
    pub(super) async fn publish_capabilities(&mut self) -> Result<(), DriverExit> {
        let plugin = self.shim.as_ref().map(|shim| shim.plugin.capabilities).unwrap_or_default();
        let is_metered = plugin.reports_usage && self.meter.is_priced();
        let continues = plugin.supports_resume || self.conversation.has_state();
        let capabilities = Capabilities {
            resume_conversation: continues,
            cost: is_metered,
            unmetered: !is_metered,
            ..super::Shim::MAXIMUM
        };
        if self.shim.is_none() || capabilities == self.published {
            return Ok(());
        }
        self.published = capabilities;
        let ready = RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: super::Shim::NAME.into(),
            capabilities,
        };
        Ok(self.events.emit(ready).await?)
    }

    async fn hold_when_spent(&mut self) -> Result<(), DriverExit> {
        let left = self.allowance.left(self.meter.spent());
        let Some(left) = left.filter(|left| left.is_zero() && self.turn.is_some() && !self.stops.spent)
        else {
            return Ok(());
        };
        self.stops.spent = true;
        self.suspend();
        Ok(self.events.emit(exceeded(None, left)).await?)
    }

    async fn set_allowance(&mut self, cap: Option<&str>, reply: Reply) -> Result<(), DriverExit> {
        if let Err(invalid) = self.allowance.set(cap) {
            return Ok(reply.refuse(invalid.refusal()).await?);
        }
        reply.done().await?;
        let is_spent = self.allowance.left(self.meter.spent()).is_some_and(Usd::is_zero);
        if self.stops.spent && !is_spent {
            self.stops.spent = false;
            if !self.stops.any() {
                return self.resume(None).await;
            }
        }
        Ok(())
    }

    /// Asks the agent to end, keeps its state, and ends the shim with everything that it started.
    pub(super) async fn end(mut self) -> Result<(), DriverExit> {
        self.end_shim().await
    }
}
