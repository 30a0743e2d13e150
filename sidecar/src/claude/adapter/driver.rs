//! The adapter at work: what it holds, and the loop that waits for commands and for the binary.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::Usd;
use pilothouse_domain::value::{MessagePriority, ThinkingLevel};
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::super::usage::Totals;
use super::super::{Options, Translator};
use super::channel::Channel;
use super::conversation::ConversationFile;
use super::gate::{Gate, Mode};
use super::messages::{self, Messages, Next};
use super::options::AdapterOptions;
use super::permissions::Permissions;
use super::process::{Output, Process};
use super::{binary, prompt};
use crate::adapter::{AdapterError, AgentCommand, AgentContext, EventSink, Refusal, Reply};
use crate::own_tools::{OwnTools, ToolServer};
use crate::process::Processes;

/// How long the binary may take to end a turn that is interrupted before its process is ended. Below the 60 s of ruling 12.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(20);

/// The adapter's state.
#[allow(clippy::struct_excessive_bools)] // facts that are independent of each other
pub(super) struct Driver {
    pub events: EventSink,
    commands: mpsc::UnboundedReceiver<AgentCommand>,
    pub launch: Arc<SidecarLaunch>,
    pub processes: Processes,
    pub own_tools: OwnTools,
    /// Serves them, from the first process on.
    pub tool_server: Option<ToolServer>,
    pub config: AgentSessionConfig,
    pub options: AdapterOptions,
    pub binary: PathBuf,
    pub model: String,
    pub thinking: Option<ThinkingLevel>,
    pub file: ConversationFile,
    pub translator: Translator,
    /// None: it is started when there is something to say.
    pub process: Option<Process>,
    /// What the binary wrote while its beginning was waited for.
    pub backlog: VecDeque<Output>,
    pub channel: Channel,
    pub gate: Gate,
    pub permissions: Permissions,
    pub messages: Messages,
    /// Interrupts that wait for the turn's end, and until when.
    pub interrupts: Vec<Reply>,
    pub interrupt_until: Option<Instant>,
    /// Pauses that wait until the agent is still.
    pub pausing: Vec<Reply>,
    /// What subagents said after the agent was still: results of calls that were under way.
    pub withheld: Vec<Value>,
    /// Requests for permission that came in a pause.
    pub postponed: Vec<Value>,
    /// Compactions that wait for the end of the turn: what to look out for.
    pub compactions: VecDeque<(Option<String>, Reply)>,
    pub compacting: Option<Reply>,
    /// The turn waits for the plan that pays for it (ruling 39).
    pub out_of_quota: bool,
    /// A new process is needed, at the end of the turn.
    pub restart_due: bool,
    pub allowance: Option<Usd>,
    /// What the conversation had cost when the run began.
    pub spent_before: Usd,
    /// What the agent said in this turn.
    pub said: String,
    /// The agent was asked for its handoff document in this turn.
    pub handoff_asked: bool,
    /// How full the context window is, once it has passed its threshold.
    pub nearly_full: Option<String>,
    pub version_told: bool,
    /// The conversation is over.
    pub over: bool,
}

/// What the loop waits for.
enum Happened {
    Command(AgentCommand),
    Stop,
    Output(Output),
    ProcessEnded,
    InterruptIsLate,
}

/// Takes `begin` and drives the agent until its conversation is over or the channel closes.
pub(super) async fn drive(mut context: AgentContext) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    let words = begin.prompt.clone();
    let started = match Driver::new(context, *begin) {
        Ok(mut driver) => driver.start_process().await.map(|()| driver),
        Err(e) => Err(e),
    };
    match started {
        Ok(mut driver) => {
            if let Some(words) = &words {
                driver.told(words)?;
            }
            reply.done().await?;
            driver.tell_settings().await?;
            if let Some(words) = words {
                let words = prompt::first(&driver.config, &words);
                driver.say(&words, "next").await?;
            }
            let result = driver.run().await;
            driver.end_process().await;
            result
        }
        Err(e) => {
            reply.refuse(Refusal::invalid(e.to_string())).await?;
            Err(e)
        }
    }
}

impl Driver {
    fn new(context: AgentContext, begin: Begin) -> Result<Self, AdapterError> {
        let own_tools = OwnTools::of(&context)?;
        let AgentContext { launch, events, commands, processes } = context;
        let Begin { config, resume_conversation, allowance_usd, .. } = begin;
        let options = AdapterOptions::read(&config.adapter_options)?;
        let binary = binary::find(&options)?;
        let allowance = allowance_usd.map(|usd| usd.parse::<Usd>()).transpose().map_err(|e| {
            AdapterError::Configuration(format!("the allowance is not an amount of dollars: {e}"))
        })?;
        let file = ConversationFile::open(Path::new(&launch.session_home), resume_conversation)
            .map_err(|e| AdapterError::Agent(format!("the conversation cannot be kept: {e}")))?;
        let totals = file.conversation().totals.clone();
        let translator = Options::new(launch.request.run_id.to_string())
            .map_err(|e| AdapterError::Configuration(e.to_string()))?
            .continued(Some(totals.clone()))
            .warn_at_percent(Some(config.context_warn_at_percent));
        Ok(Self {
            events,
            commands,
            launch,
            processes,
            own_tools,
            tool_server: None,
            model: config.model_id.clone(),
            thinking: config.thinking_level,
            config,
            options,
            binary,
            file,
            translator: Translator::new(translator),
            process: None,
            backlog: VecDeque::new(),
            channel: Channel::default(),
            gate: Gate::default(),
            permissions: Permissions::default(),
            messages: Messages::default(),
            interrupts: Vec::new(),
            interrupt_until: None,
            pausing: Vec::new(),
            withheld: Vec::new(),
            postponed: Vec::new(),
            compactions: VecDeque::new(),
            compacting: None,
            out_of_quota: false,
            restart_due: false,
            allowance,
            spent_before: cost(&totals),
            said: String::new(),
            handoff_asked: false,
            nearly_full: None,
            version_told: false,
            over: false,
        })
    }

    async fn run(&mut self) -> Result<(), AdapterError> {
        loop {
            self.go_on().await?;
            if self.over {
                return Ok(());
            }
            match self.happens().await {
                Happened::Stop => return Ok(()),
                Happened::Command(command) => self.command(command).await?,
                Happened::Output(output) => self.output(output).await?,
                Happened::ProcessEnded => self.process_ended().await?,
                Happened::InterruptIsLate => self.interrupt_is_late().await?,
            }
        }
    }

    async fn happens(&mut self) -> Happened {
        if let Some(output) = self.backlog.pop_front() {
            return Happened::Output(output);
        }
        let Self { commands, process, interrupt_until, .. } = self;
        let output = async {
            match process {
                Some(process) => process.next().await,
                None => std::future::pending().await,
            }
        };
        let late = async {
            match *interrupt_until {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = commands.recv() => command.map_or(Happened::Stop, Happened::Command),
            output = output => output.map_or(Happened::ProcessEnded, Happened::Output),
            () = late => Happened::InterruptIsLate,
        }
    }

    /// Does what has become possible: acknowledges what is done, and gives the agent what it may have now.
    async fn go_on(&mut self) -> Result<(), AdapterError> {
        if !self.interrupts.is_empty() && self.is_interrupted() {
            self.interrupt_until = None;
            self.translator.interrupt_over();
            for reply in std::mem::take(&mut self.interrupts) {
                reply.done().await?;
            }
        }
        if !self.pausing.is_empty() && self.is_still() {
            for reply in std::mem::take(&mut self.pausing) {
                reply.done().await?;
            }
        }
        if self.over || self.gate.mode() == Mode::Paused || !self.interrupts.is_empty() {
            return Ok(());
        }
        let between_turns =
            self.translator.turn_id().is_none() && !self.messages.any_written() && self.compacting.is_none();
        if between_turns && std::mem::take(&mut self.restart_due) {
            self.end_process().await;
        }
        if between_turns && let Some((instructions, reply)) = self.compactions.pop_front() {
            return self.compact(instructions, reply).await;
        }
        if self.compacting.is_none() {
            self.give_messages().await?;
        }
        Ok(())
    }

    pub(super) async fn give_messages(&mut self) -> Result<(), AdapterError> {
        while let Some(next) = self.messages.next(self.translator.turn_id()) {
            match next {
                Next::TooLate(late) => {
                    let (message, reply) = *late;
                    if let Some(turn) = &message.expected_turn {
                        reply.refuse(Refusal::turn_over(turn)).await?;
                    }
                }
                Next::Write(next) => {
                    let (message, mut reply) = *next;
                    if let Err(e) = self.start_process().await {
                        reply.refuse(Refusal::no_agent()).await?;
                        return Err(e);
                    }
                    reply.injecting().await?;
                    let priority =
                        if message.priority == MessagePriority::Immediate { "next" } else { "later" };
                    let content = message.content.clone();
                    let uuid = self.messages.written(message, reply);
                    self.write_words(&content, &uuid, priority).await?;
                }
            }
        }
        Ok(())
    }

    /// The adapter itself says something to the agent.
    pub(super) async fn say(&mut self, words: &str, priority: &str) -> Result<(), AdapterError> {
        self.start_process().await?;
        let uuid = self.messages.own(words);
        self.write_words(words, &uuid, priority).await
    }

    async fn write_words(&mut self, words: &str, uuid: &str, priority: &str) -> Result<(), AdapterError> {
        // Whoever was stopped goes on when somebody says something.
        if self.gate.mode() == Mode::Stopped {
            for (request, answer) in self.gate.open() {
                self.answer(&request, &answer).await;
            }
        }
        self.out_of_quota = false;
        self.write(&messages::line(words, uuid, priority)).await;
        Ok(())
    }

    /// Writes a line to the binary, if there is one.
    pub(super) async fn write(&mut self, line: &Value) {
        if let Some(process) = &mut self.process {
            process.write(line).await;
        }
    }

    /// Whether nobody in the agent can begin anything (ruling 15).
    pub(super) fn is_still(&self) -> bool {
        if self.process.is_none() {
            return true;
        }
        // A main loop without a plan that pays for it has stopped, also within its turn. A message that was written is about
        // to be taken up.
        let main = (self.translator.main_loop_is_open() && !self.out_of_quota)
            || (self.translator.turn_id().is_none() && self.messages.any_written());
        self.compacting.is_none() && self.gate.is_still(main, self.translator.open_subagents())
    }

    fn is_interrupted(&self) -> bool {
        use super::channel::Asked;
        self.process.is_none()
            || (self.translator.turn_id().is_none()
                && self.translator.open_subagents().next().is_none()
                && !self.messages.any_written()
                && self.compacting.is_none()
                && !self
                    .channel
                    .waits_for(|asked| matches!(asked, Asked::Interrupt | Asked::CancelMessage(_))))
    }

    /// From here on the turn's end is waited for.
    pub(super) fn interrupting(&mut self, reply: Reply) {
        self.interrupts.push(reply);
        self.interrupt_until = Some(Instant::now() + INTERRUPT_LIMIT);
    }

    /// Tells what the agent works with.
    pub(super) async fn tell_settings(&mut self) -> Result<(), AdapterError> {
        let event = RawEvent::AgentSettings {
            model_id: self.model.clone(),
            thinking_level: self.thinking,
            available_models: self.models(),
        };
        Ok(self.events.emit(event).await?)
    }

    /// The models that it can be set to: those of the options, and the one that it has.
    pub(super) fn models(&self) -> Vec<String> {
        let mut models = self.options.models.clone();
        if !models.contains(&self.model) {
            models.insert(0, self.model.clone());
        }
        models
    }
}

/// What all models cost together.
pub(super) fn cost(totals: &Totals) -> Usd {
    totals.values().map(|model| model.cost_usd).sum()
}
