//! Plays a program. [`super::control`] handles commands meanwhile.
//!
//! | module | purpose |
//! |---|---|
//! | here | runs the program, instruction by instruction |
//! | [`turns`] | begins and ends turns |
//! | [`emit`] | emits events |
//! | [`conversations`] | the conversations of the session |
//! | [`wait`] | waits of the program |
//! | [`own_tools`] | calls of Pilothouse's own tools |
//! | [`governed`] | tool calls that the control plane authorizes |

mod conversations;
mod emit;
mod governed;
mod own_tools;
mod turns;
mod wait;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_agent::tool::SharedTool;
use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::value::{Answer, DraftKind, SessionOutcome};
use pilothouse_domain::{InvalidId, ToolCallId, TurnId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use tokio::sync::mpsc;

use self::turns::{enclosing_turn, ends_agent};
use super::format::Crash;
use super::meters;
use super::profile::Capability;
use super::program::{Body, Instruction};
use super::source::{Source, at_speed};
use super::state::{State, StateFile};
use crate::adapter::{
    AdapterError, AgentCommand, AgentContext, EventSink, OwnerAnswers, PlanDecision, Refusal,
};
use crate::faults::Faults;
use crate::kit::allowance::Allowance;
use crate::kit::authorizer::Authorizer;
use crate::kit::images::{Images, LoadedImage};
use crate::kit::messages::{HeldMessage, MessageQueue};
use crate::kit::notices::limits_left_out;
use crate::kit::turns::state_error;
use crate::lease::Lease;
use crate::own_tools::OwnTools;
use crate::run_dir::until_space;
use crate::spool::SpoolError;

/// Why an instruction did not complete normally.
pub(super) enum PlayerExit {
    /// The turn was interrupted. Playing continues after it.
    Interrupted,
    /// The agent has ended or must stop.
    Over,
    Failed(AdapterError),
}

impl From<SpoolError> for PlayerExit {
    fn from(e: SpoolError) -> Self {
        Self::Failed(e.into())
    }
}

impl From<AdapterError> for PlayerExit {
    fn from(e: AdapterError) -> Self {
        Self::Failed(e)
    }
}

impl From<std::io::Error> for PlayerExit {
    fn from(e: std::io::Error) -> Self {
        Self::Failed(state_error(&e))
    }
}

impl From<InvalidId> for PlayerExit {
    fn from(e: InvalidId) -> Self {
        Self::Failed(AdapterError::Configuration(e.to_string()))
    }
}

/// What begins the next turn.
pub(super) enum Start {
    /// The program itself.
    Free,
    /// A message that has not arrived yet.
    Needed,
    Prompt,
    Message(Box<HeldMessage>),
}

pub(super) struct Turn {
    pub id: TurnId,
    /// Its instructions were inserted and are not the program's.
    inserted: bool,
    output: Option<SessionOutput>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Awaited {
    Message,
    Command(String),
    Answer(ToolCallId),
    /// The owner's decision on a tool call.
    Permission(ToolCallId),
    Decision(ToolCallId),
}

pub(super) enum Settled {
    Message,
    Command,
    Answer(OwnerAnswers),
    Decision(PlanDecision),
}

/// A conversation that is being played.
pub(super) struct Player {
    pub events: EventSink,
    pub commands: mpsc::UnboundedReceiver<AgentCommand>,
    faults: Faults,
    lease: Lease,
    /// Authorizes tool calls, if the session belongs to a project.
    authorizer: Option<Authorizer>,
    /// Pilothouse's own tools, if the program calls them.
    own_tools: Vec<SharedTool>,
    pub config: AgentSessionConfig,
    pub source: Source,
    file: StateFile,
    state: State,
    program: Arc<Vec<Instruction>>,
    inserted: VecDeque<Instruction>,
    /// Instructions to skip after the current one.
    skip: usize,
    pub turn: Option<Turn>,
    pub start: Start,
    pub paused: bool,
    pub held: MessageQueue,
    pub awaited: Option<Awaited>,
    pub settled: Option<Settled>,
    /// Answers that arrived before the program waits for them. Several requests may be open at once (decision 26).
    pub early: Vec<(ToolCallId, Vec<Answer>)>,
    /// Messages that entered the turn outside of a wait.
    pub steered: u32,
    /// The replacement of `{{message}}`.
    pub last_message: String,
    /// The replacement of `{{images}}`.
    pub last_images: Vec<LoadedImage>,
    /// Loads the images of messages.
    pub images: Images,
    pub after_stop: Vec<(String, Vec<Body>)>,
    /// The run's allowance and its spend (decision 32).
    pub allowance: Allowance,
    pub spent: Usd,
    /// The program resumed at an instruction that waits for a person, whose message counts as the answer (decision 26).
    resumed_at_wait: bool,
}

/// Handles `begin` and plays until the conversation ends or the channel closes.
pub(super) async fn play(mut context: AgentContext, faults: Faults) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    let images = begin.images.clone();
    match Player::new(context, faults, *begin) {
        Ok(mut player) => {
            player.emit_capabilities().await?;
            reply.done().await?;
            player.last_images = player.images.load(&images, &player.events).await?;
            if let Some(left_out) =
                limits_left_out(&player.config, &[], "a script has no conversation to limit")
            {
                player.events.emit(left_out).await?;
            }
            if !player.source.script.models.is_empty() {
                player.emit_settings().await?;
            }
            player.run().await
        }
        Err(e) => {
            reply.refuse(Refusal::invalid(e.to_string())).await?;
            Err(e)
        }
    }
}

impl Player {
    fn new(context: AgentContext, faults: Faults, begin: Begin) -> Result<Self, AdapterError> {
        let authorizer = Authorizer::of(&context, None)?;
        let AgentContext { launch, events, commands, lease, processes, .. } = context;
        let source = Source::read(&begin.config)?;
        let allowance = Allowance::new(begin.allowance_usd.as_deref())?;
        let failed = |e: std::io::Error| state_error(&e);
        let mut file = StateFile::open(Path::new(&launch.session_home)).map_err(failed)?;
        let mut state = file.load(begin.resume_conversation, source.fingerprint.clone()).map_err(failed)?;
        let program = source.program(state.conversation, launch.request.run_id, authorizer.is_some())?;
        let uses_own = program.iter().any(|it| matches!(it, Instruction::OwnTool(_)));
        let own_tools =
            if uses_own { OwnTools::new(&launch, events.clone(), &processes)?.shared() } else { Vec::new() };
        let mut inserted = VecDeque::new();
        let cut_off = enclosing_turn(&program, state.position);
        match cut_off {
            // The run ended within the turn. The rest becomes a new turn.
            Some(_) if source.profile.supports(Capability::Resume) => {
                inserted.push_back(Instruction::TurnStart { inserted: false });
            }
            Some(start) => state.position = start,
            None => {}
        }
        until_space(|| file.save(&state)).map_err(failed)?;
        let resumed_at_wait = matches!(
            program.get(state.position),
            Some(
                Instruction::AwaitAnswer { .. }
                    | Instruction::AwaitDecision { .. }
                    | Instruction::Plan { .. }
            )
        ) && !inserted.is_empty();
        Ok(Self {
            events,
            commands,
            faults,
            lease,
            authorizer,
            own_tools,
            config: begin.config,
            source,
            file,
            state,
            program: Arc::new(program),
            inserted,
            skip: 0,
            turn: None,
            start: if begin.prompt.is_some() { Start::Prompt } else { Start::Needed },
            paused: false,
            held: MessageQueue::default(),
            awaited: None,
            settled: None,
            early: Vec::new(),
            steered: 0,
            last_message: begin.prompt.unwrap_or_default(),
            last_images: Vec::new(),
            images: Images::of(launch),
            after_stop: Vec::new(),
            allowance,
            spent: Usd::ZERO,
            resumed_at_wait,
        })
    }

    /// Publishes the capabilities of the agent, if it lacks some.
    async fn emit_capabilities(&self) -> Result<(), SpoolError> {
        let maximum = super::maximum(self.authorizer.is_some());
        let capabilities = self.source.profile.limit(maximum);
        if capabilities == maximum {
            return Ok(());
        }
        let ready = RawEvent::SidecarReady {
            sidecar_version: env!("CARGO_PKG_VERSION").into(),
            adapter: super::Script::NAME.into(),
            capabilities,
        };
        self.events.emit(ready).await
    }

    async fn run(&mut self) -> Result<(), AdapterError> {
        loop {
            match self.next().await {
                // The interrupt's handler has already moved the position.
                Ok(()) | Err(PlayerExit::Interrupted) => {}
                // The stop is not acknowledged, as with an SDK that has no hook for it.
                Err(PlayerExit::Over)
                    if self.commands.is_closed() && !self.source.profile.supports(Capability::Kill) =>
                {
                    std::process::exit(0)
                }
                Err(PlayerExit::Over) => return Ok(()),
                Err(PlayerExit::Failed(e)) => return Err(e),
            }
        }
    }

    /// Executes one instruction, or waits for a command.
    async fn next(&mut self) -> Result<(), PlayerExit> {
        if self.lease.is_expired() {
            return Err(PlayerExit::Over);
        }
        if !self.waits_next() {
            self.take_commands().await?;
        }
        let over = self.state.position >= self.program.len();
        if self.turn.is_none() {
            let idle = match self.start {
                Start::Needed => true,
                Start::Free => over && self.inserted.is_empty(),
                Start::Prompt | Start::Message(..) => false,
            };
            if idle {
                match self.next_held().await? {
                    Some(held) => self.start = Start::Message(Box::new(held)),
                    None => return self.command().await,
                }
            }
        }
        if let Some(instruction) = self.inserted.pop_front() {
            self.perform(&instruction).await?;
            let skipped = std::mem::take(&mut self.skip).min(self.inserted.len());
            self.inserted.drain(..skipped);
            return Ok(());
        }
        if over {
            if self.turn.is_some() {
                // The program has ended within its turn, which only a command can end.
                return self.command().await;
            }
            self.insert_reaction().await?;
            return Ok(());
        }
        let program = Arc::clone(&self.program);
        let instruction = &program[self.state.position];
        if ends_agent(instruction) {
            self.advance(self.state.position + 1).await?;
            return self.perform(instruction).await;
        }
        self.perform(instruction).await?;
        let skipped = std::mem::take(&mut self.skip);
        self.advance(self.state.position + 1 + skipped).await
    }

    async fn advance(&mut self, position: usize) -> Result<(), PlayerExit> {
        self.state.position = position;
        self.keep_state().await
    }

    /// Saves the state that outlives the run.
    async fn keep_state(&mut self) -> Result<(), PlayerExit> {
        let Self { events, file, state, .. } = self;
        Ok(events.until_space(|| file.save(state)).await?)
    }

    async fn perform(&mut self, instruction: &Instruction) -> Result<(), PlayerExit> {
        match instruction {
            Instruction::Emit(body, delivery) => self.emit(body.clone(), *delivery).await?,
            Instruction::EmitSwapped(first, second) => {
                let turn = self.turn_id();
                let first = self.outgoing(first.clone(), turn.as_ref())?;
                let second = self.outgoing(second.clone(), turn.as_ref())?;
                self.events.spool().append_swapped(first, second).await?;
            }
            Instruction::EmitAll(events) => self.emit_all(events).await?,
            Instruction::TurnStart { inserted } => {
                self.state.turns += 1;
                let id = TurnId::parse(format!("turn-{}-{}", self.state.conversation, self.state.turns))?;
                self.keep_state().await?;
                self.begin_turn(id, *inserted).await?;
            }
            Instruction::Output(output) => {
                if let Some(turn) = &mut self.turn {
                    turn.output = Some(output.clone());
                }
            }
            Instruction::TurnEnd => {
                if let Some(Turn { id: turn_id, output, .. }) = self.turn.take() {
                    self.events
                        .emit(RawEvent::TurnCompleted { turn_id, output, outcome: SessionOutcome::Completed })
                        .await?;
                }
            }
            Instruction::Usage(usage, subagent) => {
                let model = self.source.script.model.as_deref().unwrap_or(&self.config.model_id);
                let warn_at = self.config.options.context_warn_at_percent;
                self.spent += usage.cost_usd;
                let events = meters::count(&mut self.state, usage, subagent.clone(), model, warn_at)?;
                // Saved before it is published: repeating a total does no harm, but totals would decrease after a lost
                // one.
                self.keep_state().await?;
                self.events.emit_all(events).await?;
            }
            Instruction::Draft(text) => self.events.drafts().write(DraftKind::Text, text),
            Instruction::Price(needed) => self.price(*needed).await?,
            Instruction::Wait(time) => self.sleep(at_speed(*time, self.source.speed)).await?,
            Instruction::GovernedCall(tool) => self.governed_call(tool).await?,
            Instruction::Delegate { call, subagent, steps } => self.delegate(call, subagent, *steps).await?,
            Instruction::OwnTool(call) => self.own_tool(call).await?,
            Instruction::AwaitMessage { earlier } => self.await_message(*earlier).await?,
            Instruction::AwaitCommand(name) => {
                self.until_settled(Awaited::Command(name.clone())).await?;
            }
            Instruction::AwaitAnswer { call, result } => self.await_answer(call, *result).await?,
            Instruction::AwaitDecision { call, result } => {
                if !std::mem::take(&mut self.resumed_at_wait) {
                    self.await_decision(call, *result).await?;
                }
            }
            Instruction::Plan { call, texts } => self.show_plan(call, texts).await?,
            Instruction::Silence(time) => self.faults.silence(*time),
            Instruction::Crash(how) => crash(*how)?,
            Instruction::Ignore(command, how) => self.faults.ignore(command, *how),
            Instruction::AfterStop(command, bodies) => {
                self.after_stop.push((command.clone(), bodies.clone()));
            }
            Instruction::End(end) => {
                self.events.emit(RawEvent::SessionEnd(end.clone())).await?;
                return Err(PlayerExit::Over);
            }
        }
        Ok(())
    }
}

fn crash(how: Crash) -> Result<(), std::io::Error> {
    match how {
        Crash::Exit(code) => std::process::exit(code),
        Crash::Kill => Ok(kill(Pid::this(), Signal::SIGKILL)?),
    }
}
