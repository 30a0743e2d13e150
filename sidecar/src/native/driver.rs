//! The conversation as it is driven: one thing after the other, of what the agent does and asks and what is asked of it.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use pilothouse_agent::event::SessionEvent;
use pilothouse_agent::model::genai::Connections;
use pilothouse_agent::session::{AgentSession, CompactionResult, Prompted, SessionError};
use pilothouse_domain::TurnId;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::allowance::Allowance;
use super::gate::{Ask, Gate};
use super::logs::Logs;
use super::memory::Memory;
use super::options::Options;
use super::prompt;
use super::setup::Setup;
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
#[allow(clippy::struct_excessive_bools)] // each says something of its own
pub(super) struct Driver {
    pub events: EventSink,
    pub commands: mpsc::UnboundedReceiver<AgentCommand>,
    pub config: AgentSessionConfig,
    pub setup: Setup,
    pub memory: Memory,
    /// None only while it is opened anew.
    pub session: Option<AgentSession>,
    pub told: mpsc::UnboundedReceiver<SessionEvent>,
    pub asks: mpsc::UnboundedReceiver<Ask>,
    /// What the agent asked and has no answer to: it is held.
    pub asked: Option<Ask>,
    pub work: Option<Work>,
    /// Whether that is a command of its owner's.
    pub executing: bool,
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
    pub logs: Logs,
    pub log_due: Option<Instant>,
    pub stream_output: bool,
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
        connections: Connections,
    ) -> Result<(Self, Option<String>), AdapterError> {
        let (gate, asks) = Gate::new();
        let setup = Setup::new(&context, gate, connections)?;
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

    /// Waits until the conversation so far outlives a power loss, as the spool does: before somebody is told that it has
    /// something, or that a turn is over. The agent works meanwhile, as far as it may.
    pub(super) async fn keep(&self) -> Result<(), AdapterError> {
        let kept = self.session()?.sync().await;
        kept.map_err(|error| AdapterError::Agent(format!("its conversation cannot be kept: {error}")))
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
