//! Plays a program. What it is asked meanwhile stands in [`super::control`].

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_domain::money::InvalidUsd;
use pilothouse_domain::value::{Answer, SessionOutcome, SessionOutput};
use pilothouse_domain::{InvalidId, ToolCallId, TurnId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use pilothouse_wire::event::{AssistantContent, Content};
use serde_json::{json, value::to_raw_value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::format::Crash;
use super::meters;
use super::program::{Body, Instruction};
use super::source::{Source, at_speed};
use super::state::{State, StateFile};
use crate::adapter::{
    AdapterError, AgentCommand, AgentContext, EventSink, Message, MessageReply, PlanDecision, Refusal,
};
use crate::faults::Faults;
use crate::spool::{Delivery, Outgoing, SpoolError};

/// Why playing does not simply go on.
pub(super) enum Break {
    /// The turn was interrupted: on to what comes after it.
    Interrupted,
    /// The agent is over or is to stop.
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

impl From<std::io::Error> for Break {
    fn from(e: std::io::Error) -> Self {
        Self::Failed(AdapterError::Agent(format!("its state cannot be kept: {e}")))
    }
}

impl From<InvalidId> for Break {
    fn from(e: InvalidId) -> Self {
        Self::Failed(AdapterError::Configuration(e.to_string()))
    }
}

/// What begins the next turn.
pub(super) enum Start {
    /// The program itself.
    Free,
    /// A message that has yet to come.
    Needed,
    /// The prompt of `begin`.
    Prompt,
    /// This message.
    Message(Box<(Message, MessageReply)>),
}

/// The turn that runs.
pub(super) struct Turn {
    pub id: TurnId,
    /// Its instructions are inserted ones, not the program's.
    inserted: bool,
    output: Option<SessionOutput>,
}

/// What the program waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Awaited {
    Message,
    Command(String),
    Answer(ToolCallId),
    Decision(ToolCallId),
}

/// What came of it.
pub(super) enum Settled {
    Message,
    Command,
    Answer(Vec<Answer>),
    Decision(PlanDecision),
}

/// A conversation as it is played.
pub(super) struct Player {
    pub events: EventSink,
    pub commands: mpsc::UnboundedReceiver<AgentCommand>,
    faults: Faults,
    pub config: AgentSessionConfig,
    pub source: Source,
    file: StateFile,
    state: State,
    program: Arc<Vec<Instruction>>,
    inserted: VecDeque<Instruction>,
    pub turn: Option<Turn>,
    pub start: Start,
    pub paused: bool,
    /// Messages whose time has not come.
    pub held: VecDeque<(Message, MessageReply)>,
    pub awaited: Option<Awaited>,
    pub settled: Option<Settled>,
    /// Answers that came before the program waits for them: several requests may be open at once (ruling 26).
    pub early: Vec<(ToolCallId, Vec<Answer>)>,
    /// Messages that came into the turn when nothing waited for them.
    pub steered: u32,
    /// What `{{message}}` stands for.
    pub last_message: String,
    pub after_stop: Vec<(String, Vec<Body>)>,
    /// The most that this run may spend, and what it spent (ruling 32).
    pub allowance: Option<Usd>,
    pub spent: Usd,
    /// Taken up at an instruction that waits for a person: their message is the answer (ruling 26).
    resumed_at_wait: bool,
}

/// Takes `begin` and plays until the conversation is over or the channel closes.
pub(super) async fn play(mut context: AgentContext, faults: Faults) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    match Player::new(context, faults, *begin) {
        Ok(mut player) => {
            reply.done().await?;
            if !player.source.script.models.is_empty() {
                player.tell_settings().await?;
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
        let AgentContext { launch, events, commands, .. } = context;
        let source = Source::read(&begin.config)?;
        let no_money = |e: InvalidUsd| AdapterError::Configuration(e.to_string());
        let allowance = begin.allowance_usd.as_deref().map(str::parse).transpose().map_err(no_money)?;
        let failed = |e: std::io::Error| AdapterError::Agent(format!("its state cannot be kept: {e}"));
        let file = StateFile::open(Path::new(&launch.session_home)).map_err(failed)?;
        let state = file.load(begin.resume_conversation, source.fingerprint.clone()).map_err(failed)?;
        file.save(&state).map_err(failed)?;
        let program = source.program(state.conversation, launch.request.run_id)?;
        let mut inserted = VecDeque::new();
        if stands_in_turn(&program, state.position) {
            // The turn ended with its run; what is left of it is a new one.
            inserted.push_back(Instruction::TurnStart { inserted: false });
        }
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
            config: begin.config,
            source,
            file,
            state,
            program: Arc::new(program),
            inserted,
            turn: None,
            start: if begin.prompt.is_some() { Start::Prompt } else { Start::Needed },
            paused: false,
            held: VecDeque::new(),
            awaited: None,
            settled: None,
            early: Vec::new(),
            steered: 0,
            last_message: begin.prompt.unwrap_or_default(),
            after_stop: Vec::new(),
            allowance,
            spent: Usd::ZERO,
            resumed_at_wait,
        })
    }

    async fn run(&mut self) -> Result<(), AdapterError> {
        loop {
            match self.next().await {
                // The handler of an interrupt has put everything where it belongs.
                Ok(()) | Err(Break::Interrupted) => {}
                Err(Break::Over) => return Ok(()),
                Err(Break::Failed(e)) => return Err(e),
            }
        }
    }

    /// One instruction, or one command that is waited for.
    async fn next(&mut self) -> Result<(), Break> {
        self.take_commands().await?;
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
            return self.perform(&instruction).await;
        }
        if over {
            if self.turn.is_some() {
                // A program that leaves its turn open; only a command can end it.
                return self.command().await;
            }
            self.insert_reaction()?;
            return Ok(());
        }
        let program = Arc::clone(&self.program);
        let instruction = &program[self.state.position];
        if ends_agent(instruction) {
            self.advance(self.state.position + 1)?;
            return self.perform(instruction).await;
        }
        self.perform(instruction).await?;
        self.advance(self.state.position + 1)
    }

    fn advance(&mut self, position: usize) -> Result<(), Break> {
        self.state.position = position;
        Ok(self.file.save(&self.state)?)
    }

    fn insert_reaction(&mut self) -> Result<(), Break> {
        self.state.inserted += 1;
        let prefix = format!("{}-m{}", self.state.conversation, self.state.inserted);
        self.inserted.push_back(Instruction::TurnStart { inserted: true });
        self.inserted.extend(self.source.reaction(&prefix)?);
        self.inserted.push_back(Instruction::TurnEnd);
        Ok(self.file.save(&self.state)?)
    }

    /// The turn is over without `turn_completed`: what is left of it will not be played, and the next one is begun
    /// by a message. Answers its id.
    pub(super) fn drop_turn(&mut self) -> Result<Option<TurnId>, Break> {
        let Some(turn) = self.turn.take() else { return Ok(None) };
        self.inserted.clear();
        (self.awaited, self.settled, self.start) = (None, None, Start::Needed);
        if !turn.inserted {
            let rest = self.program.iter().skip(self.state.position);
            let left = rest.take_while(|i| !ends_turn(i)).count() + 1;
            self.advance((self.state.position + left).min(self.program.len()))?;
        }
        Ok(Some(turn.id))
    }

    async fn perform(&mut self, instruction: &Instruction) -> Result<(), Break> {
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
                self.file.save(&self.state)?;
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
                let warn_at = self.config.context_warn_at_percent;
                self.spent += usage.cost_usd;
                let events = meters::count(&mut self.state, usage, subagent.clone(), model, warn_at)?;
                // The total is kept before it is told: told again it is the same, forgotten it would go down.
                self.file.save(&self.state)?;
                self.events.emit_all(events).await?;
            }
            Instruction::Price(needed) => self.price(*needed).await?,
            Instruction::Wait(time) => self.sleep(at_speed(*time, self.source.speed)).await?,
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
                return Err(Break::Over);
            }
        }
        Ok(())
    }

    fn handoff_text(&self) -> String {
        self.config.handoff.as_ref().map_or_else(String::new, |handoff| handoff.document.to_text())
    }

    /// Why it cannot go back to before a turn: it never began it.
    pub(super) fn has_no_turn(&self, turn: &str) -> Option<Refusal> {
        let begun = |n| format!("turn-{}-{n}", self.state.conversation) == turn;
        let known = (1..=self.state.turns).any(begun) && self.turn.is_none();
        (!known).then(|| Refusal::invalid(format!("this conversation cannot go back to before {turn}")))
    }

    pub(super) fn turn_id(&self) -> Option<TurnId> {
        self.turn.as_ref().map(|turn| turn.id.clone())
    }

    /// Fills in what the script leaves open: the turn, and what is said.
    fn completed(&self, mut event: RawEvent, turn: Option<&TurnId>) -> RawEvent {
        match &mut event {
            RawEvent::AssistantMessage { content, turn_id } => {
                self.fill_in(content);
                if turn_id.is_none() {
                    *turn_id = turn.cloned();
                }
            }
            RawEvent::SubagentMessage { content, .. } => self.fill_in(content),
            _ => {}
        }
        event
    }

    fn fill_in(&self, content: &mut AssistantContent) {
        if let AssistantContent::Text { text: Content::Text(text) } = content
            && text.contains("{{")
        {
            *text = text
                .replace("{{message}}", &self.last_message)
                .replace("{{objective}}", &self.config.objective)
                .replace("{{handoff}}", &self.handoff_text())
                .replace("{{configuration}}", &self.configuration());
        }
    }

    /// What it was configured with last, as a script can say it: names of tools and subagents, and the system prompt.
    pub(super) fn configuration(&self) -> String {
        let config = &self.config;
        let tools: Vec<_> = config.custom_tools.iter().map(|tool| tool.name.as_str()).collect();
        let subagents: Vec<_> = config.sub_agents.iter().map(|agent| agent.name.as_str()).collect();
        format!(
            "model: {}\nallowed tools: {}\ncustom tools: {}\nsubagents: {}\n\n{}",
            config.model_id,
            config.allowed_tools.join(", "),
            tools.join(", "),
            subagents.join(", "),
            config.composed_system_prompt
        )
    }

    pub(super) fn outgoing(&self, body: Body, turn: Option<&TurnId>) -> Result<Outgoing, SpoolError> {
        Ok(match body {
            Body::Event(event) => Outgoing::event(self.completed(*event, turn))?,
            Body::Malformed(json) => Outgoing::raw(to_raw_value(&json)?),
        })
    }

    async fn emit(&mut self, body: Body, delivery: Delivery) -> Result<(), Break> {
        match &body {
            Body::Event(event) if changes_turn(event) => self.emit_all(std::slice::from_ref(event)).await,
            _ => {
                let outgoing = self.outgoing(body, self.turn_id().as_ref())?.delivered(delivery);
                self.events.spool().append(outgoing).await?;
                Ok(())
            }
        }
    }

    /// Events that bring their own turns.
    async fn emit_all(&mut self, events: &[RawEvent]) -> Result<(), Break> {
        let mut together = Vec::new();
        for event in events {
            match event {
                RawEvent::TurnStarted { turn_id, .. } => {
                    self.events.emit_all(std::mem::take(&mut together)).await?;
                    self.begin_turn(turn_id.clone(), false).await?;
                }
                RawEvent::TurnCompleted { .. } => {
                    self.turn = None;
                    together.push(event.clone());
                }
                _ => together.push(self.completed(event.clone(), self.turn_id().as_ref())),
            }
        }
        self.events.emit_all(together).await?;
        let ended = events.iter().any(|event| matches!(event, RawEvent::SessionEnd(_)));
        if ended { Err(Break::Over) } else { Ok(()) }
    }

    async fn begin_turn(&mut self, id: TurnId, inserted: bool) -> Result<(), Break> {
        let message = match std::mem::replace(&mut self.start, Start::Free) {
            Start::Message(message) => Some(*message),
            Start::Prompt => None,
            Start::Free | Start::Needed => self.next_held().await?,
        };
        self.turn = Some(Turn { id: id.clone(), inserted, output: None });
        self.steered = 0;
        let Some((message, mut reply)) = message else {
            return Ok(self.events.emit(RawEvent::TurnStarted { turn_id: id, message_id: None }).await?);
        };
        reply.injecting().await?;
        self.last_message = message.content;
        self.events.emit(RawEvent::TurnStarted { turn_id: id, message_id: Some(message.id) }).await?;
        Ok(reply.injected().await?)
    }

    async fn await_message(&mut self, earlier: bool) -> Result<(), Break> {
        if self.turn.is_none() {
            if !matches!(self.start, Start::Message(..)) {
                self.start = Start::Needed;
            }
            return Ok(());
        }
        if earlier && self.steered > 0 {
            self.steered -= 1;
            return Ok(());
        }
        match self.next_held().await? {
            Some((message, reply)) => self.inject(message, reply, false).await,
            None => self.until_settled(Awaited::Message).await.map(drop),
        }
    }

    /// Whether the program comes to wait for the answer to `request`.
    pub(super) fn will_await(&self, request: &ToolCallId) -> bool {
        let rest = self.program.iter().skip(self.state.position);
        rest.chain(&self.inserted)
            .any(|next| matches!(next, Instruction::AwaitAnswer { call, .. } if call == request))
    }

    async fn await_answer(&mut self, call: &ToolCallId, result: bool) -> Result<(), Break> {
        if std::mem::take(&mut self.resumed_at_wait) {
            return Ok(());
        }
        let answers = match self.early.iter().position(|(request, _)| request == call) {
            Some(at) => self.early.remove(at).1,
            None => match self.until_settled(Awaited::Answer(call.clone())).await? {
                Settled::Answer(answers) => answers,
                _ => return Ok(()),
            },
        };
        if result {
            self.tool_result(call, Content::Json(json!({ "answers": answers })), false).await?;
        }
        Ok(())
    }

    /// Answers whether the plan was approved.
    async fn await_decision(&mut self, call: &ToolCallId, result: bool) -> Result<bool, Break> {
        let Settled::Decision(decision) = self.until_settled(Awaited::Decision(call.clone())).await? else {
            return Ok(true);
        };
        if result {
            let text = match (decision.approved, decision.feedback) {
                (true, _) => "The plan was approved.".to_owned(),
                (false, Some(feedback)) => format!("The plan was rejected: {feedback}"),
                (false, None) => "The plan was rejected.".to_owned(),
            };
            self.tool_result(call, Content::Text(text), !decision.approved).await?;
        }
        Ok(decision.approved)
    }

    async fn tool_result(
        &self,
        call: &ToolCallId,
        content: Content,
        is_error: bool,
    ) -> Result<(), SpoolError> {
        let result =
            RawEvent::ToolResult { tool_call_id: call.clone(), content, is_error, subagent_id: None };
        self.events.emit(result).await
    }

    async fn show_plan(&mut self, call: &ToolCallId, texts: &[String]) -> Result<(), Break> {
        if std::mem::take(&mut self.resumed_at_wait) {
            return Ok(());
        }
        let mut shown = 0;
        loop {
            let id = if shown == 0 { call.clone() } else { ToolCallId::parse(format!("{call}-r{shown}"))? };
            // An owner who goes on rejecting sees the last revision again.
            let text = texts.get(shown).or(texts.last()).map_or("", String::as_str);
            let content = AssistantContent::ToolUse {
                tool_call_id: id.clone(),
                tool_name: "ExitPlanMode".into(),
                input: json!({ "plan": text }),
            };
            self.events.emit(RawEvent::AssistantMessage { content, turn_id: self.turn_id() }).await?;
            if !self.config.plan_approval_required {
                return Ok(self
                    .tool_result(&id, Content::from("The plan needs no approval."), false)
                    .await?);
            }
            if self.await_decision(&id, true).await? {
                return Ok(());
            }
            shown += 1;
        }
    }

    /// Waits, and takes commands meanwhile. While it is paused, no time passes.
    async fn sleep(&mut self, mut left: Duration) -> Result<(), Break> {
        loop {
            while self.paused {
                self.command().await?;
            }
            let began = Instant::now();
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    left = left.saturating_sub(began.elapsed());
                    self.handle(command.ok_or(Break::Over)?).await?;
                }
                () = tokio::time::sleep(left) => return Ok(()),
            }
        }
    }

    async fn until_settled(&mut self, awaited: Awaited) -> Result<Settled, Break> {
        self.awaited = Some(awaited);
        loop {
            if !self.paused
                && let Some(settled) = self.settled.take()
            {
                self.awaited = None;
                return Ok(settled);
            }
            self.command().await?;
        }
    }
}

fn crash(how: Crash) -> Result<(), std::io::Error> {
    match how {
        Crash::Exit(code) => std::process::exit(code),
        Crash::Kill => Ok(kill(Pid::this(), Signal::SIGKILL)?),
    }
}

fn changes_turn(event: &RawEvent) -> bool {
    matches!(event, RawEvent::TurnStarted { .. } | RawEvent::TurnCompleted { .. } | RawEvent::SessionEnd(_))
}

/// The events that an instruction is.
fn events_of(instruction: &Instruction) -> &[RawEvent] {
    match instruction {
        Instruction::EmitAll(events) => events,
        Instruction::Emit(Body::Event(event), _) => std::slice::from_ref(event),
        _ => &[],
    }
}

fn starts_turn(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::TurnStart { .. })
        || events_of(instruction).iter().any(|event| matches!(event, RawEvent::TurnStarted { .. }))
}

fn ends_turn(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::TurnEnd)
        || events_of(instruction).iter().any(|event| matches!(event, RawEvent::TurnCompleted { .. }))
}

/// Whether nothing can be noted after it.
fn ends_agent(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::Crash(_) | Instruction::End(_))
        || events_of(instruction).iter().any(|event| matches!(event, RawEvent::SessionEnd(_)))
}

/// Whether `position` stands between a turn's start and its end.
fn stands_in_turn(program: &[Instruction], position: usize) -> bool {
    let done = &program[..position.min(program.len())];
    done.iter().rev().find(|i| starts_turn(i) || ends_turn(i)).is_some_and(|last| !ends_turn(last))
}
