//! The driver of a conversation. Processes the agent's events and requests and the control plane's commands one at a
//! time.

use std::collections::BTreeSet;
use std::path::Path;

use pilothouse_agent::event::SessionEvent;
use pilothouse_agent::extension::CommandOutcome;
use pilothouse_agent::message::BashExecution;
use pilothouse_agent::model::genai::Connections;
use pilothouse_agent::session::{AgentSession, CompactionResult, Prompted, SessionError};
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessageImage;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::governor::{ApprovalRequest, DriverGovernor, ToolRequest};
use super::logs::Logs;
use super::options::Options;
use super::prompt;
use super::saved_state::SavedState;
use super::setup::Setup;
use super::usage::dollars;
use crate::adapter::{AdapterError, AgentCommand, AgentContext, EventSink, MessageReply, Reply};
use crate::kit::allowance::Allowance;
use crate::kit::authorizer::Authorizer;
use crate::kit::deferral::{PendingReplies, wait_until};
use crate::kit::images::Images;
use crate::kit::messages::MessageQueue;
use crate::kit::turns::{DriverExit, state_error};

type Work = AbortOnDropHandle<Result<Prompted, SessionError>>;

#[allow(clippy::struct_excessive_bools)] // independent facts
pub(super) struct Driver {
    pub events: EventSink,
    pub commands: mpsc::UnboundedReceiver<AgentCommand>,
    pub config: AgentSessionConfig,
    pub setup: Setup,
    /// Loads the images of messages.
    pub images: Images,
    pub saved_state: SavedState,
    /// `None` only while it is being reopened.
    pub session: Option<AgentSession>,
    pub session_events: mpsc::UnboundedReceiver<SessionEvent>,
    pub approvals: mpsc::UnboundedReceiver<ApprovalRequest>,
    /// A request to proceed without an answer: the agent is held.
    pub held_request: Option<ApprovalRequest>,
    /// Authorizes tool calls, if the session belongs to a project.
    pub authorizer: Option<Authorizer>,
    /// Tool calls that wait for a verdict or for their owner.
    pub permitting: JoinSet<ToolRequest>,
    pub work: Option<Work>,
    /// Whether the agent waits before it retries a model call. It asks again before the retry.
    pub retrying: bool,
    /// Whether the work is a command of the owner.
    pub executing: bool,
    /// Running compactions, each with the reply of the command that requested it.
    pub compacting: JoinSet<(Reply, Result<CompactionResult, SessionError>)>,
    /// Running commands of the owner, in parallel to the agent, with the tags of their messages.
    pub owner_commands: JoinSet<(String, OwnerCommandResult)>,
    pub owner_command_tags: BTreeSet<String>,
    pub turn: Option<TurnId>,
    /// The agent was asked for its handoff document. Only then does a document count.
    pub document_due: bool,
    pub paused: bool,
    pub pausing: PendingReplies,
    pub allowance: Allowance,
    /// Whether the agent is held for its budget and the control plane knows.
    pub over_budget: bool,
    /// Whether models without a known price may be called.
    pub allow_unmetered: bool,
    /// Whether the control plane knows that the model's price is unknown.
    pub unmetered: bool,
    pub held: MessageQueue,
    /// Messages that were given to the agent and are not in the conversation yet.
    pub injecting: Vec<InjectingMessage>,
    pub logs: Logs,
    pub log_due: Option<Instant>,
    pub stream_output: bool,
}

/// What opens the first turn.
pub(super) struct Opening {
    pub text: String,
    pub images: Vec<MessageImage>,
}

/// A message on its way into the conversation.
pub(super) struct InjectingMessage {
    pub tag: String,
    pub reply: MessageReply,
}

/// The result of a command that the owner gave during a turn.
pub(super) enum OwnerCommandResult {
    Shell(Result<BashExecution, SessionError>),
    Extension(Option<CommandOutcome>),
}

impl Driver {
    /// Opens the conversation. Also returns what opens the first turn.
    pub(super) async fn open(
        context: AgentContext,
        begin: Begin,
        connections: Connections,
    ) -> Result<(Self, Option<Opening>), AdapterError> {
        let authorizer = Authorizer::of(&context, None)?;
        let (governor, approvals) = DriverGovernor::new(context.lease.clone());
        let setup = Setup::new(&context, governor, authorizer.is_some(), connections)?;
        let mut saved_state =
            SavedState::open(Path::new(&context.launch.session_home)).map_err(|e| state_error(&e))?;
        let Begin { config, resume_conversation, prompt, images, allowance_usd, allow_unmetered } = begin;
        let conversation = saved_state.conversation().filter(|_| resume_conversation).map(Path::to_owned);
        let (session, session_events) = setup.open(&config, &saved_state, conversation).await?;
        let state = session.state();
        saved_state.set_conversation(&state.file).map_err(|e| state_error(&e))?;
        let allowance =
            Allowance::new(allowance_usd.as_deref())?.after(dollars(state.meters.total().cost_usd));
        let stream_output = Options::read(&config.adapter_options)?.stream_output;
        let opening = prompt.map(|prompt| Opening { text: prompt::opening(&config, prompt), images });
        let AgentContext { launch, events, commands, .. } = context;
        let logs = Logs::without_secrets(events.redactor().clone());
        let driver = Self {
            events,
            commands,
            config,
            setup,
            images: Images::of(launch),
            saved_state,
            session: Some(session),
            session_events,
            approvals,
            held_request: None,
            authorizer,
            permitting: JoinSet::new(),
            work: None,
            retrying: false,
            executing: false,
            compacting: JoinSet::new(),
            owner_commands: JoinSet::new(),
            owner_command_tags: BTreeSet::new(),
            turn: None,
            document_due: false,
            paused: false,
            pausing: PendingReplies::default(),
            allowance,
            over_budget: false,
            allow_unmetered,
            unmetered: false,
            held: MessageQueue::default(),
            injecting: Vec::new(),
            logs,
            log_due: None,
            stream_output,
        };
        Ok((driver, opening))
    }

    pub(super) fn session(&self) -> Result<&AgentSession, AdapterError> {
        self.session.as_ref().ok_or_else(|| AdapterError::Agent("its conversation is closed".into()))
    }

    /// Waits until the conversation is on disk, as safe as the spool against a power loss. Called before the control
    /// plane learns that the agent has a message or that a turn is over. The agent may continue meanwhile.
    pub(super) async fn sync_conversation(&self) -> Result<(), AdapterError> {
        let kept = self.session()?.sync().await;
        kept.map_err(|error| AdapterError::Agent(format!("failed to save its conversation: {error}")))
    }

    /// Drives the conversation until it ends.
    pub(super) async fn run(&mut self, opening: Option<Opening>) -> Result<(), AdapterError> {
        let done = match self.begin(opening).await {
            Ok(()) => self.until_over().await,
            Err(done) => done,
        };
        if let Some(session) = &self.session {
            session.close().await;
        }
        done.outcome()
    }

    async fn begin(&mut self, opening: Option<Opening>) -> Result<(), DriverExit> {
        let mut events = vec![self.setup.settings(self.session()?)];
        events.extend(self.setup.notices(&self.config));
        events.extend(self.saved_state.conversations_to_choose());
        self.events.emit_all(events).await?;
        match opening {
            Some(Opening { text, images }) => self.begin_turn(text, &images, None).await,
            None => Ok(()),
        }
    }

    async fn until_over(&mut self) -> DriverExit {
        loop {
            if let Err(done) = self.next().await {
                return done;
            }
        }
    }

    /// Processes one input. Events of the agent go first.
    async fn next(&mut self) -> Result<(), DriverExit> {
        let log_due = self.log_due;
        tokio::select! {
            biased;
            Some(event) = self.session_events.recv() => {
                self.emit(event).await?;
                // A retry may wait for a long time.
                if self.retrying { self.confirm_pause().await } else { Ok(()) }
            }
            ended = ended(&mut self.work) => self.work_ended(ended).await,
            Some(request) = self.approvals.recv() => self.handle_approval(request, false).await,
            Some(Ok(request)) = self.permitting.join_next() => {
                self.handle_approval(ApprovalRequest::Tool(request), false).await
            }
            command = self.commands.recv() => match command {
                Some(command) => self.handle(command).await,
                None => self.stop().await,
            },
            Some(Ok(finished)) = self.owner_commands.join_next() => self.owner_command_finished(finished).await,
            Some(Ok((reply, result))) = self.compacting.join_next() => self.compacted(reply, result).await,
            () = wait_until(log_due) => {
                self.log_due = None;
                let due = self.logs.due();
                Ok(self.events.emit_all(due).await?)
            }
        }
    }

    /// Handles all events of the agent so far.
    pub(super) async fn drain(&mut self) -> Result<(), DriverExit> {
        while let Ok(event) = self.session_events.try_recv() {
            self.emit(event).await?;
        }
        Ok(())
    }

    /// Reopens the conversation with another configuration.
    pub(super) async fn reopen(&mut self, config: AgentSessionConfig) -> Result<(), DriverExit> {
        let Some(old) = self.session.take() else { return Ok(()) };
        let file = old.state().file;
        old.close().await;
        drop(old);
        let (session, session_events) = self.setup.open(&config, &self.saved_state, Some(file)).await?;
        (self.session, self.session_events) = (Some(session), session_events);
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
