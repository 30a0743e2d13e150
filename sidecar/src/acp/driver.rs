//! The adapter's task: takes commands and what the agent says, one after the other, and tells what comes of it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::agents::{Advertised, Instructions, Steering};
use super::connection::{Connection, Inbound};
use super::environment;
use super::files::Folder;
use super::json::text;
use super::memory::{Conversation, Memory};
use super::messages::Messages;
use super::meter::Meter;
use super::options::{self, Launch};
use super::process::Process;
use super::requests::Requests;
use super::session::{self, Opened, SET, notice};
use super::settings::How;
use super::terminals::Terminals;
use super::translator::{Listening, Translator};
use super::turns::Turn;
use crate::adapter::{AdapterError, AgentCommand, AgentContext, EventSink, PlanDecision, Refusal, Reply};
use crate::own_tools::{OwnTools, SERVER_NAME, ToolServer};
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
    pub(super) events: EventSink,
    pub(super) commands: mpsc::UnboundedReceiver<AgentCommand>,
    pub(super) inbound: mpsc::UnboundedReceiver<Inbound>,
    pub(super) connection: Connection,
    pub(super) process: Process,
    pub(super) launch: Arc<SidecarLaunch>,
    pub(super) config: AgentSessionConfig,
    pub(super) agent: Advertised,
    pub(super) memory: Memory,
    pub(super) conversation: Conversation,
    pub(super) translator: Translator,
    pub(super) requests: Requests,
    pub(super) folder: Folder,
    /// Where files are touched when the agent is another user.
    pub(super) files: Option<AgentThread>,
    /// Serves the tools that Pilothouse itself gives the agent.
    _tool_server: ToolServer,
    pub(super) terminals: Terminals,
    pub(super) messages: Messages,
    pub(super) turn: Option<Turn>,
    /// Counts the turns of this run.
    pub(super) turns: u64,
    /// Counts what was asked outside any tool call.
    pub(super) asked: u64,
    /// What the agent reads before the first words of its conversation.
    pub(super) introduction: Vec<String>,
    pub(super) paused: bool,
    /// When calls are told whose input may still be streamed.
    tell_at: Option<Instant>,
}

/// Takes `begin` and drives the agent until its conversation is over or the channel closes.
pub(super) async fn drive(mut context: AgentContext) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    let claude = std::env::var(options::CLAUDE).ok();
    let launch = match Launch::read(&begin.config.adapter_options, claude) {
        Ok(launch) => launch,
        Err(why) => {
            reply.refuse(Refusal::invalid(why.clone())).await?;
            return Err(AdapterError::Configuration(why));
        }
    };
    let mut early = VecDeque::new();
    let started = {
        let own_tools = OwnTools::of(&context)?;
        let starting =
            start(&context.launch, &context.events, &context.processes, own_tools, &begin, &launch);
        tokio::pin!(starting);
        loop {
            tokio::select! {
                started = &mut starting => break started,
                command = context.commands.recv() => match command {
                    Some(command) => early.push_back(command),
                    // Told to stop before it began; what was started dies with the future.
                    None => return Ok(()),
                },
            }
        }
    };
    let started = match started {
        Ok(started) => started,
        Err(why) => {
            reply.refuse(Refusal::invalid(why.clone())).await?;
            return Err(AdapterError::Agent(why));
        }
    };
    reply.done().await?;
    let Started {
        process,
        connection,
        inbound,
        tool_server,
        agent,
        memory,
        conversation,
        translator,
        folder,
        files,
        terminals,
        notices,
    } = started;
    let introduction = if conversation.introduced { Vec::new() } else { introduction(&begin.config, &agent) };
    let mut driver = Driver {
        events: context.events,
        commands: context.commands,
        inbound,
        connection,
        process,
        launch: context.launch,
        config: begin.config,
        agent,
        memory,
        conversation,
        translator,
        requests: Requests::default(),
        folder,
        files,
        _tool_server: tool_server,
        terminals,
        messages: Messages::default(),
        turn: None,
        turns: 0,
        asked: 0,
        introduction,
        paused: false,
        tell_at: None,
    };
    driver.events.emit_all(notices).await?;
    let ended = driver.run(begin.prompt, early).await;
    driver.end().await;
    match ended {
        Ok(()) | Err(Break::Over) => Ok(()),
        Err(Break::Failed(e)) => Err(e),
    }
}

/// What stands when `begin` is done.
struct Started {
    process: Process,
    connection: Connection,
    inbound: mpsc::UnboundedReceiver<Inbound>,
    tool_server: ToolServer,
    agent: Advertised,
    memory: Memory,
    conversation: Conversation,
    translator: Translator,
    folder: Folder,
    files: Option<AgentThread>,
    terminals: Terminals,
    notices: Vec<RawEvent>,
}

/// Starts the agent and opens its conversation. An error is a sentence for a person.
async fn start(
    run: &SidecarLaunch,
    events: &EventSink,
    processes: &Processes,
    own_tools: OwnTools,
    begin: &Begin,
    launch: &Launch,
) -> Result<Started, String> {
    let config = &begin.config;
    let folder = Folder::open(Path::new(&run.request.working_directory)).map_err(|e| {
        format!("the working directory {} cannot be used: {e}", run.request.working_directory)
    })?;
    let kept = |e: std::io::Error| format!("what is kept of the agent's conversation cannot be used: {e}");
    let memory = Memory::open(Path::new(&run.session_home)).map_err(kept)?;
    let earlier = if begin.resume_conversation { memory.load().map_err(kept)? } else { None };

    let variables = environment::of_agent(std::env::vars(), launch.profile, &launch.environment);
    environment::secrets(&variables).for_each(|secret| events.keep_secret(secret));
    let files = processes.user().map(AgentThread::start).transpose();
    let files = files.map_err(|e| format!("the agent's files cannot be looked after: {e}"))?;
    let tools = |e: std::io::Error| format!("the agent's own tools cannot be served: {e}");
    let tool_server = own_tools.serve(run).map_err(tools)?;
    let server = tool_server.mcp_server_config().map_err(tools)?;
    let server = json!({ "name": SERVER_NAME, "command": server.command, "args": server.args, "env": [] });
    let (mut process, pipes) = Process::start(launch, processes, &variables, folder.path(), events.clone())?;
    let (connection, inbound) = Connection::open(pipes, events.clone()).await?;
    let opened = async {
        let agent = session::initialize(&connection, launch).await?;
        let path = folder.path().to_string_lossy();
        let opened =
            session::open(&connection, launch, &agent, config, &path, server, earlier.as_ref()).await?;
        Ok((agent, opened))
    };
    let (agent, opened): (Advertised, Opened) = match opened.await {
        Ok(opened) => opened,
        Err(why) if connection.is_closed() => {
            let obituary = process.obituary().await;
            return Err(format!("{why} ({obituary})"));
        }
        Err(why) => return Err(why),
    };

    let earlier = earlier.filter(|_| opened.taken_up);
    let conversation = earlier.unwrap_or_else(|| Conversation {
        id: opened.id.clone(),
        agent: agent.agent.clone(),
        introduced: false,
        totals: super::meter::Totals::default(),
    });
    memory.save(&conversation).map_err(kept)?;
    let totals = conversation.totals.clone();
    let meter = Meter::new(&conversation.id, totals, &config.model_id, config.context_warn_at_percent);
    let mut translator = Translator::new(&conversation.id, &config.model_id, meter);
    if opened.taken_up {
        translator.listening = Listening::Replay;
    }
    translator.settings.opened(&opened.answer);
    let mut notices = vec![connected(&agent, opened.taken_up)];
    notices.extend(opened.notices);
    configure(&connection, &mut translator, config, launch, &mut notices).await;
    notices.push(translator.settings_told());
    let model = translator.settings.model_id(&config.model_id).to_owned();
    translator.meter.model(&model);
    let terminals = Terminals::new(folder.clone(), processes.clone());
    Ok(Started {
        process,
        connection,
        inbound,
        tool_server,
        agent,
        memory,
        conversation,
        translator,
        folder,
        files,
        terminals,
        notices,
    })
}

/// What the agent turned out to be.
fn connected(agent: &Advertised, taken_up: bool) -> RawEvent {
    RawEvent::Notice {
        name: "agent_connected".into(),
        summary: format!("connected to {}", agent.agent),
        detail: Some(json!({
            "agent": agent.agent,
            "steersMidTurn": agent.steering == Steering::Extension,
            "takesUpConversations": agent.taking_up != super::agents::TakingUp::Never,
            "conversationTakenUp": taken_up,
            "secondPrompt": agent.profile.second_prompt.name(),
        })),
    }
}

/// Sets the model and the mode that were asked for. What the agent does not have is told; it works with its own.
async fn configure(
    connection: &Connection,
    translator: &mut Translator,
    config: &AgentSessionConfig,
    launch: &Launch,
    notices: &mut Vec<RawEvent>,
) {
    let session = translator.session().to_owned();
    let wanted = config.model_id.as_str();
    // `default` is whichever model the agent takes by itself.
    if wanted != "default" && translator.settings.model.as_ref().is_none_or(|model| model.current != wanted) {
        let set = set(connection, &session, translator, Which::Model, wanted).await;
        if let Err(why) = set {
            notices.push(notice("model_not_set", format!("the agent goes on with its own model: {why}")));
        }
    }
    if let Some(mode) = &launch.mode
        && let Err(why) = set(connection, &session, translator, Which::Mode, mode).await
    {
        notices.push(notice("mode_not_set", why));
    }
}

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The model.
    Model,
    /// How deeply it thinks.
    Thinking,
    /// The mode.
    Mode,
}

/// Changes a setting. An error is a sentence for a person.
pub(super) async fn set(
    connection: &Connection,
    session: &str,
    translator: &mut Translator,
    which: Which,
    value: &str,
) -> Result<(), String> {
    let settings = &translator.settings;
    let (what, setting) = match which {
        Which::Model => ("model", &settings.model),
        Which::Thinking => ("thinking level", &settings.thinking),
        Which::Mode => ("mode", &settings.mode),
    };
    let setting = setting.as_ref().ok_or_else(|| format!("this agent lets nobody choose its {what}"))?;
    if !setting.values.is_empty() && !setting.values.iter().any(|known| known == value) {
        return Err(format!("this agent has no {what} `{value}`; it has {}", setting.values.join(", ")));
    }
    let (method, parameters) = match &setting.how {
        How::Option(id) => {
            ("session/set_config_option", json!({ "sessionId": session, "configId": id, "value": value }))
        }
        How::SetModel => ("session/set_model", json!({ "sessionId": session, "modelId": value })),
        How::SetMode => ("session/set_mode", json!({ "sessionId": session, "modeId": value })),
    };
    let answer = session::ask(connection, SET, method, parameters).await?;
    let settings = &mut translator.settings;
    let changed = match which {
        Which::Model => &mut settings.model,
        Which::Thinking => &mut settings.thinking,
        Which::Mode => &mut settings.mode,
    };
    if let Some(changed) = changed {
        value.clone_into(&mut changed.current);
    }
    if session::has_options(&answer) {
        settings.options(&answer);
    }
    Ok(())
}

/// What the agent reads before its first words: instructions where it has no other place for them, and what the session
/// before it left (ruling 34).
fn introduction(config: &AgentSessionConfig, agent: &Advertised) -> Vec<String> {
    let mut texts = Vec::new();
    let instructions = config.composed_system_prompt.trim();
    if agent.profile.instructions == Instructions::FirstPrompt && !instructions.is_empty() {
        texts.push(format!("Instructions for all of this conversation:\n\n{instructions}"));
    }
    if let Some(handoff) = &config.handoff {
        let document = &handoff.document;
        let mut text = format!(
            "You go on with work that another session began.\n\nDone so far:\n{}\n\nRemaining:\n{}",
            document.summary, document.remaining_work
        );
        if let Some(decisions) = &document.key_decisions {
            text.push_str("\n\nDecisions to keep:\n");
            text.push_str(decisions.as_str());
        }
        texts.push(text);
    }
    texts
}

impl Driver {
    async fn run(&mut self, prompt: Option<String>, early: VecDeque<AgentCommand>) -> Result<(), Break> {
        // What an earlier conversation repeated was said before it was open: none of it belongs to the first turn.
        while let Ok(inbound) = self.inbound.try_recv() {
            self.hear(inbound).await?;
        }
        if let Some(prompt) = prompt {
            self.begin_turn(vec![prompt], None).await?;
        }
        for command in early {
            self.command(command).await?;
        }
        loop {
            self.next().await?;
        }
    }

    async fn next(&mut self) -> Result<(), Break> {
        let wait_until = |at: Option<Instant>| async move {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let give_up = self.turn.as_ref().and_then(Turn::gives_up_at);
        tokio::select! {
            biased;
            command = self.commands.recv() => {
                let command = command.ok_or(Break::Over)?;
                self.command(command).await
            }
            // What the agent said before it was paused is told when it goes on: nothing new of the turn is told in between
            // (ruling 15).
            Some(inbound) = self.inbound.recv(), if !self.paused => self.hear(inbound).await,
            () = wait_until(self.tell_at), if !self.paused => {
                self.tell_at = None;
                let events = self.translator.time_passed();
                Ok(self.events.emit_all(events).await?)
            }
            () = wait_until(give_up) => self.give_up().await,
        }
    }

    async fn hear(&mut self, inbound: Inbound) -> Result<(), Break> {
        match inbound {
            Inbound::Told(method, parameters) => self.told(&method, &parameters).await?,
            Inbound::Asked(method, parameters, responder) => {
                self.asked(&method, parameters, responder).await?;
            }
            Inbound::Prompted(number, answer) => self.prompted(number, answer).await?,
            Inbound::Steered(number, answer) => self.steered(number, answer).await?,
            Inbound::Closed => {
                let obituary = self.process.obituary().await;
                self.abandon_turn("the agent ended").await?;
                return Err(Break::agent(format!("it ended by itself: {obituary}")));
            }
        }
        let waits = self.translator.waits();
        self.tell_at = waits.then(|| self.tell_at.unwrap_or_else(|| Instant::now() + STREAMED));
        Ok(())
    }

    async fn told(&mut self, method: &str, parameters: &Value) -> Result<(), Break> {
        if method != "session/update" {
            // Extensions of vendors begin with `_`: their own business.
            tracing::debug!(method, "the agent told something that is not listened to");
            return Ok(());
        }
        let terminals = &self.terminals;
        let events = self.translator.update(parameters, &|id| terminals.printed(id));
        self.tell(events).await?;
        self.end_turn_when_subagents_have().await
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

    async fn command(&mut self, command: AgentCommand) -> Result<(), Break> {
        match command {
            AgentCommand::Begin(_, reply) => {
                Ok(reply.refuse(Refusal::invalid("the agent was started before")).await?)
            }
            AgentCommand::Message(message, reply) => self.message(message, reply).await,
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => {
                if !self.paused {
                    self.process.pause();
                    self.terminals.pause();
                    self.paused = true;
                }
                Ok(reply.done().await?)
            }
            AgentCommand::Resume(reply) => {
                self.go_on();
                reply.done().await?;
                self.steer_waiting().await
            }
            AgentCommand::Reload(_, reply) => {
                Ok(reply.refuse(Refusal::not_supported("reload_config")).await?)
            }
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

    async fn decide(&mut self, decision: PlanDecision, reply: Reply) -> Result<(), Break> {
        let PlanDecision { request, approved, feedback } = decision;
        if !self.requests.decide(&request, approved) {
            return Ok(reply.refuse(Refusal::invalid("the agent does not wait for this")).await?);
        }
        reply.done().await?;
        // The protocol's answer has no room for words: they follow as a message.
        if let Some(feedback) = feedback.filter(|feedback| !approved && !feedback.trim().is_empty()) {
            self.messages.add_own(format!("The plan was rejected; revise it. {feedback}"));
            self.steer_waiting().await?;
        }
        Ok(())
    }

    /// Lets the agent go on where it was stopped.
    pub(super) fn go_on(&mut self) {
        if self.paused {
            self.paused = false;
            self.terminals.resume();
            self.process.resume();
        }
    }

    async fn end(self) {
        let Self { process, connection, terminals, .. } = self;
        terminals.kill_all().await;
        drop(terminals);
        connection.tell("session/cancel", json!({ "sessionId": self.conversation.id }));
        drop(connection);
        process.end().await;
    }
}

/// The tool and the kind of a call that the agent asks about.
pub(super) fn kind_of(call: &Value) -> Option<&str> {
    text(call, "kind")
}
