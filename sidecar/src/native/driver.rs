//! The conversation as it is driven: turns, what the agent asks before it goes on, and what it did.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use pilothouse_agent::bash::UserCommand;
use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::governor::CallPurpose;
use pilothouse_agent::message::AgentMessage;
use pilothouse_agent::session::{AgentSession, CompactionResult, PromptOptions, Prompted, SessionError};
use pilothouse_domain::TurnId;
use pilothouse_domain::value::{MessageSource, SessionOutcome};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use pilothouse_wire::event::{AssistantContent, SessionEnd};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::allowance::Allowance;
use super::gate::{Ask, Gate};
use super::logs::{self, Logs};
use super::memory::Memory;
use super::options::Options;
use super::setup::Setup;
use super::usage::{self, Window};
use super::{handoff, prompt, tell};
use crate::adapter::{AdapterError, AgentCommand, AgentContext, EventSink, Message, MessageReply, Reply};
use crate::spool::SpoolError;

/// Why the driver does not go on.
pub(super) enum Break {
    /// The conversation is over, or the agent is to stop.
    Over,
    /// It failed.
    Failed(AdapterError),
}

impl From<SpoolError> for Break {
    fn from(e: SpoolError) -> Self {
        Self::Failed(e.into())
    }
}

impl From<AdapterError> for Break {
    fn from(e: AdapterError) -> Self {
        Self::Failed(e)
    }
}

impl From<io::Error> for Break {
    fn from(e: io::Error) -> Self {
        Self::Failed(AdapterError::Agent(format!("its memory cannot be kept: {e}")))
    }
}

/// What the agent works on.
type Work = AbortOnDropHandle<Result<Prompted, SessionError>>;

/// Drives one conversation.
pub(super) struct Driver {
    pub events: EventSink,
    commands: mpsc::UnboundedReceiver<AgentCommand>,
    pub config: AgentSessionConfig,
    pub setup: Setup,
    pub memory: Memory,
    /// None only while it is opened anew.
    session: Option<AgentSession>,
    told: mpsc::UnboundedReceiver<SessionEvent>,
    asks: mpsc::UnboundedReceiver<Ask>,
    /// What the agent asked and has no answer to: it is held.
    pub asked: Option<Ask>,
    pub work: Option<Work>,
    /// Whether that is a command of its owner's.
    executing: bool,
    /// Summaries that were asked for, with who asked.
    pub compacting: JoinSet<(Reply, Result<CompactionResult, SessionError>)>,
    pub turn: Option<TurnId>,
    pub paused: bool,
    /// Who waits for the pause to be done.
    pub pausing: Vec<Reply>,
    pub allowance: Allowance,
    /// Whether the agent was told to be held for its budget since it could last go on.
    pub over_budget: bool,
    /// Messages whose time has not come.
    pub held: VecDeque<(Message, MessageReply)>,
    /// Messages that were given to the agent and are not in the conversation yet.
    pub giving: Vec<MessageGiven>,
    logs: Logs,
    log_due: Option<Instant>,
    stream_output: bool,
}

/// A message on its way into the conversation.
pub(super) struct MessageGiven {
    pub tag: String,
    pub reply: MessageReply,
}

impl Driver {
    /// Opens the conversation; and what opens the first turn.
    pub(super) async fn open(
        context: AgentContext,
        begin: Begin,
    ) -> Result<(Self, Option<String>), AdapterError> {
        let (gate, asks) = Gate::new();
        let setup = Setup::new(&context, gate)?;
        let failed = |e: io::Error| AdapterError::Agent(format!("its memory cannot be kept: {e}"));
        let mut memory = Memory::open(Path::new(&context.launch.session_home)).map_err(failed)?;
        let Begin { config, resume_conversation, prompt, allowance_usd } = begin;
        let conversation = memory.conversation().filter(|_| resume_conversation).map(Path::to_owned);
        let (session, told) = setup.open(&config, &memory, conversation).await?;
        let state = session.state();
        memory.set_conversation(&state.file).map_err(failed)?;
        let allowance = Allowance::new(allowance_usd.as_deref(), state.meters.total().cost_usd)
            .map_err(AdapterError::Configuration)?;
        let stream_output = Options::read(&config.adapter_options)?.stream_output;
        let opening = prompt.map(|prompt| prompt::opening(&config, prompt));
        let AgentContext { events, commands, .. } = context;
        let driver = Self {
            events,
            commands,
            config,
            setup,
            memory,
            session: Some(session),
            told,
            asks,
            asked: None,
            work: None,
            executing: false,
            compacting: JoinSet::new(),
            turn: None,
            paused: false,
            pausing: Vec::new(),
            allowance,
            over_budget: false,
            held: VecDeque::new(),
            giving: Vec::new(),
            logs: Logs::default(),
            log_due: None,
            stream_output,
        };
        Ok((driver, opening))
    }

    /// The session.
    pub(super) fn session(&self) -> Result<&AgentSession, AdapterError> {
        self.session.as_ref().ok_or_else(|| AdapterError::Agent("its conversation is closed".into()))
    }

    /// Drives it until it is over.
    pub(super) async fn run(&mut self, opening: Option<String>) -> Result<(), AdapterError> {
        let done = match self.begin(opening).await {
            Ok(()) => self.until_over().await,
            Err(done) => done,
        };
        if let Some(session) = &self.session {
            session.close().await;
        }
        match done {
            Break::Over => Ok(()),
            Break::Failed(e) => Err(e),
        }
    }

    async fn begin(&mut self, opening: Option<String>) -> Result<(), Break> {
        let mut events = vec![self.setup.settings(self.session()?)];
        events.extend(self.setup.notices());
        self.events.emit_all(events).await?;
        match opening {
            Some(text) => self.begin_turn(text, None).await,
            None => Ok(()),
        }
    }

    async fn until_over(&mut self) -> Break {
        loop {
            if let Err(done) = self.next().await {
                return done;
            }
        }
    }

    /// One thing that happens. What the agent tells goes before everything else.
    async fn next(&mut self) -> Result<(), Break> {
        let log_due = self.log_due;
        tokio::select! {
            biased;
            Some(event) = self.told.recv() => self.tell(event).await,
            ended = ended(&mut self.work) => self.work_ended(ended).await,
            Some(ask) = self.asks.recv() => self.consider(ask, false).await,
            command = self.commands.recv() => match command {
                Some(command) => self.handle(command).await,
                None => self.stop().await,
            },
            Some(Ok((reply, result))) = self.compacting.join_next() => self.compacted(reply, result).await,
            () = async { sleep_until(log_due.unwrap_or_else(Instant::now)).await }, if log_due.is_some() => {
                self.log_due = None;
                let due = self.logs.due();
                Ok(self.events.emit_all(due).await?)
            }
        }
    }

    /// Tells everything that the agent did so far.
    pub(super) async fn drain(&mut self) -> Result<(), Break> {
        while let Ok(event) = self.told.try_recv() {
            self.tell(event).await?;
        }
        Ok(())
    }

    async fn tell(&mut self, event: SessionEvent) -> Result<(), Break> {
        match &event {
            SessionEvent::Injected { tag, .. } => return self.injected(tag).await,
            SessionEvent::ToolExecutionUpdate { tool_call_id, chunk } => {
                self.log(tool_call_id, chunk);
                return Ok(());
            }
            SessionEvent::BashUpdate { chunk } => {
                self.log("", chunk);
                return Ok(());
            }
            SessionEvent::Usage { provider, model, context_tokens, context_window, .. } => {
                let window = Window { tokens: *context_tokens, limit: *context_window };
                return self.used(&format!("{provider}/{model}"), window).await;
            }
            SessionEvent::ModelChange { .. } | SessionEvent::ThinkingLevelChange(_) => {
                let settings = self.setup.settings(self.session()?);
                return Ok(self.events.emit(settings).await?);
            }
            _ => {}
        }
        let mut events = Vec::new();
        if let SessionEvent::MessageEnd { message, .. } = &event {
            match message {
                AgentMessage::ToolResult(result) => events.extend(self.logs.end(&result.tool_call_id)),
                AgentMessage::BashExecution(_) => events.extend(self.logs.end("")),
                AgentMessage::Assistant(message) => {
                    let document = handoff::document(&message.text());
                    events.extend(document.map(RawEvent::HandoffDocument));
                }
                AgentMessage::User(_) => {}
            }
        }
        // The document after the message that it stands in.
        let told = tell::events(event, self.turn.as_ref());
        let at =
            events.iter().position(|e| matches!(e, RawEvent::HandoffDocument(_))).unwrap_or(events.len());
        events.splice(at..at, told);
        Ok(self.events.emit_all(events).await?)
    }

    fn log(&mut self, call: &str, chunk: &str) {
        if self.stream_output {
            self.logs.push(call, chunk);
            if self.log_due.is_none() && self.logs.waits() {
                self.log_due = Some(Instant::now() + logs::EVERY);
            }
        }
    }

    async fn used(&mut self, model: &str, window: Window) -> Result<(), Break> {
        let state = self.session()?.state();
        let update = usage::update(&state.session_id, &state.meters, model, window)
            .map_err(|e| AdapterError::Agent(e.to_string()))?;
        let mut events: Vec<_> = update.into_iter().collect();
        if self.memory.warns(window.is_at(self.config.context_warn_at_percent))? {
            events.push(window.nearing());
        }
        Ok(self.events.emit_all(events).await?)
    }

    /// The agent asks whether it may go on. `again`: it was held.
    pub(super) async fn consider(&mut self, ask: Ask, again: bool) -> Result<(), Break> {
        // What it did before it asked is told before it has an answer.
        self.drain().await?;
        if ask.is_over() {
            return Ok(());
        }
        if let Ask::AfterTool(_) = ask {
            if !self.paused {
                self.steer().await?;
            }
            ask.go();
            return Ok(());
        }
        if self.paused {
            self.asked = Some(ask);
            return self.settle_pause().await;
        }
        let turn = !matches!(&ask, Ask::Model(call, _) if call.purpose != CallPurpose::Turn);
        let now = again || matches!(ask, Ask::Model(..));
        if turn && now && self.work.is_some() && self.has_immediate() {
            // Nothing goes before it: the turn goes on with the message when the agent stands still.
            ask.stop("Not done: your owner has a message for you that goes before it.");
            return Ok(());
        }
        if let Ask::Model(call, _) = &ask
            && let Some(exceeded) = self.allowance.exceeded_by(call)
        {
            if !std::mem::replace(&mut self.over_budget, true) {
                self.events.emit(exceeded.event()).await?;
            }
            self.asked = Some(ask);
            return Ok(());
        }
        self.over_budget = false;
        ask.go();
        Ok(())
    }

    /// What holds the agent may be gone.
    pub(super) async fn reconsider(&mut self) -> Result<(), Break> {
        match self.asked.take() {
            Some(ask) => self.consider(ask, true).await,
            None => Ok(()),
        }
    }

    /// Whether nothing of the agent goes on: it is held, waits for its owner, or has nothing to do.
    pub(super) fn stands_still(&self) -> bool {
        let held = self.asked.as_ref().is_some_and(|ask| !ask.is_over());
        let waits = !self.setup.requests.waiting().is_empty();
        held || waits || (self.work.is_none() && self.compacting.is_empty())
    }

    /// Says that the pause is done, once it is (ruling 15).
    pub(super) async fn settle_pause(&mut self) -> Result<(), Break> {
        if self.paused && !self.pausing.is_empty() && self.stands_still() {
            self.drain().await?;
            for reply in std::mem::take(&mut self.pausing) {
                reply.done().await?;
            }
        }
        Ok(())
    }

    /// A turn begins: with a message, or with what the run was begun with.
    pub(super) async fn begin_turn(
        &mut self,
        text: String,
        message: Option<(Message, MessageReply)>,
    ) -> Result<(), Break> {
        let after = self.session()?.state().leaf;
        let turn_id = self.memory.begin_turn(after)?;
        let mut options = PromptOptions::default();
        let message_id = message.as_ref().map(|(message, _)| message.id);
        let source = message.as_ref().map(|(message, _)| message.source);
        if let Some((message, mut reply)) = message {
            reply.injecting().await?;
            options.tag = Some(message.id.to_string());
            self.giving.push(MessageGiven { tag: message.id.to_string(), reply });
        }
        self.events.emit(RawEvent::TurnStarted { turn_id: turn_id.clone(), message_id }).await?;
        self.turn = Some(turn_id);
        let of_owner = source == Some(MessageSource::User);
        if of_owner && UserCommand::parse(&text).is_some() {
            self.execute(text)
        } else {
            self.prompt(text, options)
        }
    }

    /// Runs a command of the owner's, `!command` or `!!command` (ruling 41).
    fn execute(&mut self, text: String) -> Result<(), Break> {
        let session = self.session()?.clone();
        let work = async move {
            let ran = session.execute_bash(&text).await;
            ran.map(|_| Prompted::Command(String::new()))
        };
        self.executing = true;
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    /// Lets the agent work on a text.
    pub(super) fn prompt(&mut self, text: String, options: PromptOptions) -> Result<(), Break> {
        let session = self.session()?.clone();
        let work = async move { session.prompt(&text, options).await };
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    /// Lets the agent go on without a new text.
    pub(super) fn go_on(&mut self) -> Result<(), Break> {
        let session = self.session()?.clone();
        let work = async move { session.resume().await.map(Prompted::Ended) };
        self.work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        Ok(())
    }

    async fn work_ended(
        &mut self,
        ended: Result<Result<Prompted, SessionError>, JoinError>,
    ) -> Result<(), Break> {
        self.work = None;
        self.asked = None;
        self.drain().await?;
        if std::mem::take(&mut self.executing) {
            // It is in the conversation, as a command.
            for given in std::mem::take(&mut self.giving) {
                given.reply.injected().await?;
            }
        }
        let due = self.logs.due();
        self.events.emit_all(due).await?;
        let ended = ended.map_err(|_| AdapterError::Agent("its loop panicked".into()))?;
        match ended {
            Ok(Prompted::Ended(outcome)) => self.outcome(outcome).await?,
            Ok(Prompted::Command(said)) => {
                if !said.is_empty() {
                    let content = AssistantContent::Text { text: said.into() };
                    let said = RawEvent::AssistantMessage { content, turn_id: self.turn.clone() };
                    self.events.emit(said).await?;
                }
                self.complete(SessionOutcome::Completed).await?;
            }
            // Its work is another's, which goes on.
            Ok(Prompted::Queued) => {}
            Err(SessionError::NothingToDo) => self.complete(SessionOutcome::Completed).await?,
            Err(error) => return self.failed("execution_error", error.to_string()).await,
        }
        self.settle_pause().await?;
        self.next_held().await
    }

    async fn outcome(&mut self, outcome: AgentOutcome) -> Result<(), Break> {
        match outcome {
            AgentOutcome::Completed | AgentOutcome::Held(_) if self.has_immediate() => {
                // The turn goes on; while it is paused, when that is over.
                if self.paused { Ok(()) } else { self.go_on_with_messages().await }
            }
            AgentOutcome::Completed => self.complete(SessionOutcome::Completed).await,
            AgentOutcome::MaxTurns => self.complete(SessionOutcome::MaxIterations).await,
            AgentOutcome::Held(_) => self.complete(SessionOutcome::ExecutionError).await,
            // Whoever aborts it sees to the rest.
            AgentOutcome::Aborted => Ok(()),
            AgentOutcome::QuotaExceeded { message, reset_at } => {
                // The turn is open, and goes on when it is resumed or spoken to (ruling 39).
                let quota = RawEvent::QuotaExceeded { message: Some(message), reset_at };
                Ok(self.events.emit(quota).await?)
            }
            AgentOutcome::ContextExhausted => {
                self.events.emit(RawEvent::ContextExhausted {}).await?;
                self.end(false, "context_exhausted", None).await
            }
            AgentOutcome::Failed(message) => self.failed("model_error", message).await,
        }
    }

    /// The turn is over.
    async fn complete(&mut self, outcome: SessionOutcome) -> Result<(), Break> {
        let Some(turn_id) = self.turn.take() else { return Ok(()) };
        self.setup.requests.close();
        self.refuse_given(&turn_id).await?;
        let output = self.setup.submitted.take();
        Ok(self.events.emit(RawEvent::TurnCompleted { turn_id, output, outcome }).await?)
    }

    async fn failed(&mut self, reason: &str, message: String) -> Result<(), Break> {
        self.end(true, reason, Some(message)).await
    }

    async fn end(&mut self, is_error: bool, reason: &str, message: Option<String>) -> Result<(), Break> {
        let output = self.setup.submitted.take();
        let end = SessionEnd { is_error, reason: reason.into(), message, output };
        self.events.emit(RawEvent::SessionEnd(end)).await?;
        Err(Break::Over)
    }

    /// Ends what the agent does, and tells what came of it.
    pub(super) async fn abort(&mut self) -> Result<(), Break> {
        self.setup.requests.close();
        self.asked = None;
        self.compacting.abort_all();
        let session = self.session()?.clone();
        session.abort().await;
        if let Some(work) = self.work.take() {
            if std::mem::take(&mut self.executing) {
                work.abort();
            }
            let _ = work.await;
        }
        self.drain().await?;
        let due = self.logs.due();
        self.events.emit_all(due).await?;
        self.setup.withdraw();
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), Break> {
        self.abort().await?;
        Err(Break::Over)
    }

    /// Takes up the conversation with another configuration.
    pub(super) async fn reopen(&mut self, config: AgentSessionConfig) -> Result<(), Break> {
        let Some(old) = self.session.take() else { return Ok(()) };
        let file = old.state().file;
        old.close().await;
        drop(old);
        let (session, told) = self.setup.open(&config, &self.memory, Some(file)).await?;
        (self.session, self.told) = (Some(session), told);
        self.config = config;
        Ok(())
    }
}

async fn ended(work: &mut Option<Work>) -> Result<Result<Prompted, SessionError>, JoinError> {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}
