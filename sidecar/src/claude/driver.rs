//! The running adapter: its state, and the loop that processes commands and Claude Code's output.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::value::ThinkingLevel;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::warn;

use super::binary;
use super::control_channel::ControlChannel;
use super::conversation::ConversationFile;
use super::initialization::{Beginning, Initialization, Reloading};
use super::messages::{Content, Messages};
use super::options::AdapterOptions;
use super::permissions::Permissions;
use super::process::{BufferedOutput, Process};
use super::tool_hooks::{Mode, ToolHooks};
use super::unmetered::Unmetered;
use super::verdicts::{VerdictArrival, Verdicts};
use crate::adapter::{AdapterError, AgentCommand, AgentContext, EventSink, Refusal, Reply};
use crate::kit::allowance::Allowance;
use crate::kit::authorizer::Authorizer;
use crate::kit::claude_stream::{Options, Translator};
use crate::kit::deferral::{PendingCompactions, PendingReplies, wait_until};
use crate::kit::images::Images;
use crate::kit::json::text;
use crate::kit::notices::limits_left_out;
use crate::kit::outage::Outage;
use crate::kit::usage::cost;
use crate::lease::Lease;
use crate::own_tools::{OwnTools, ToolServer};
use crate::process::Processes;

/// How long Claude Code may take to end an interrupted turn before its process is ended. Below the 60 seconds of
/// decision 12.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(20);

#[allow(clippy::struct_excessive_bools)] // independent facts
pub(super) struct Driver {
    pub events: EventSink,
    commands: mpsc::UnboundedReceiver<AgentCommand>,
    pub launch: Arc<SidecarLaunch>,
    /// Loads the images of messages.
    pub images: Images,
    pub processes: Processes,
    pub lease: Lease,
    pub own_tools: OwnTools,
    /// Serves the sidecar's own tools, from the first process on.
    pub tool_server: Option<ToolServer>,
    pub config: AgentSessionConfig,
    pub options: AdapterOptions,
    pub binary: PathBuf,
    pub model: String,
    pub thinking: Option<ThinkingLevel>,
    pub file: ConversationFile,
    pub translator: Translator,
    /// `None` until there is something to send.
    pub process: Option<Process>,
    /// Set until the process is initialized.
    pub initializing: Option<Initialization>,
    /// Output that arrived during the initialization. It still counts as output that waits.
    pub backlog: VecDeque<BufferedOutput>,
    /// Commands that wait for the initialization.
    pub deferred_commands: VecDeque<AgentCommand>,
    pub beginning: Option<Beginning>,
    pub reloading: Option<Reloading>,
    /// The task of the session, if an interrupt withdrew it before the agent had it.
    pub withdrawn_task: Option<Content>,
    pub control_channel: ControlChannel,
    pub tool_hooks: ToolHooks,
    pub permissions: Permissions,
    /// Authorizes tool calls, if the session belongs to a project.
    pub authorizer: Option<Authorizer>,
    pub verdicts: Verdicts,
    pub messages: Messages,
    /// Interrupts that wait for the end of the turn, and their deadline.
    pub interrupts: PendingReplies,
    pub interrupt_until: Option<Instant>,
    /// A call had no result when the interrupt arrived, so its command may be about to start.
    pub interrupted_in_call: bool,
    /// Pauses that wait until the agent is idle.
    pub pausing: PendingReplies,
    /// Messages of subagents that arrived during a pause: results of calls that were in progress.
    pub messages_during_pause: Vec<Value>,
    /// Permission requests that arrived during a pause.
    pub requests_during_pause: Vec<Value>,
    pub compactions: PendingCompactions,
    pub compacting: Option<Reply>,
    /// The turn waits because the quota is exceeded (decision 39) or the model does not answer (decision 93).
    pub waits_for_model: bool,
    pub outage: Outage,
    /// A new process is needed at the end of the turn.
    pub restart_due: bool,
    pub allowance: Allowance,
    /// The agent is held because the allowance is spent.
    pub over_budget: bool,
    pub paused: bool,
    /// Model calls that wait until the spend is known.
    pub unmetered: Unmetered,
    /// The agent's text of this turn.
    pub turn_text: String,
    /// The agent was asked for its handoff document in this turn, so it is not asked again.
    pub handoff_requested: bool,
    /// Whether a handoff document counts: the agent was asked for it in this or an earlier turn, or its context window is full.
    pub accepts_document: bool,
    /// The fill level in percent, while the context window is so full that a handoff is due.
    pub nearly_full: Option<String>,
    pub version_emitted: bool,
    /// The version of Claude Code is not tested, so it gets no undocumented requests. Not known before its first turn.
    pub untested: bool,
    /// Whether the conversation has ended.
    pub has_ended: bool,
}

enum DriverEvent {
    Command(AgentCommand),
    Stop,
    Output(BufferedOutput),
    Verdict(VerdictArrival),
    ProcessEnded,
    StartIsLate,
    InterruptIsLate,
    UsageIsLate,
}

/// Handles `begin` and drives the agent until its conversation ends or the channel closes.
pub(super) async fn drive(mut context: AgentContext) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    let images = begin.images.clone();
    let prompt = begin.prompt.clone().map(|text| Content { text, images });
    let mut driver = match Driver::new(context, *begin) {
        Ok(driver) => driver,
        Err(e) => {
            reply.refuse(Refusal::invalid(e.to_string())).await?;
            return Err(e);
        }
    };
    let result = match driver.begin(Beginning { reply, prompt }).await {
        Ok(()) => driver.run().await,
        Err(e) => Err(e),
    };
    driver.end_process().await;
    result
}

impl Driver {
    fn new(context: AgentContext, begin: Begin) -> Result<Self, AdapterError> {
        let own_tools = OwnTools::of(&context)?;
        let Begin { config, resume_conversation, allowance_usd, .. } = begin;
        let options = AdapterOptions::read(&config.adapter_options)?;
        let authorizer = Authorizer::of(&context, options.environment.get("HOME").map(String::as_str))?;
        let AgentContext { launch, events, commands, processes, lease } = context;
        let binary = binary::find(&options)?;
        let allowance = Allowance::new(allowance_usd.as_deref())?;
        let file = ConversationFile::open(Path::new(&launch.session_home), resume_conversation)
            .map_err(|e| AdapterError::Agent(format!("failed to save the conversation: {e}")))?;
        let totals = file.conversation().totals.clone();
        let translator = Options::new(launch.request.run_id.to_string())
            .map_err(|e| AdapterError::Configuration(e.to_string()))?
            .continued(Some(totals.clone()))
            .warn_at_percent(Some(config.options.context_warn_at_percent));
        Ok(Self {
            events,
            commands,
            images: Images::of(Arc::clone(&launch)),
            launch,
            processes,
            lease,
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
            initializing: None,
            backlog: VecDeque::new(),
            deferred_commands: VecDeque::new(),
            beginning: None,
            reloading: None,
            withdrawn_task: None,
            control_channel: ControlChannel::default(),
            tool_hooks: ToolHooks::new(authorizer.is_some()),
            permissions: Permissions::default(),
            authorizer,
            verdicts: Verdicts::default(),
            messages: Messages::default(),
            interrupts: PendingReplies::default(),
            interrupt_until: None,
            interrupted_in_call: false,
            pausing: PendingReplies::default(),
            messages_during_pause: Vec::new(),
            requests_during_pause: Vec::new(),
            compactions: PendingCompactions::default(),
            compacting: None,
            waits_for_model: false,
            outage: Outage::default(),
            restart_due: false,
            allowance: allowance.after(cost(&totals)),
            over_budget: false,
            paused: false,
            unmetered: Unmetered::default(),
            turn_text: String::new(),
            handoff_requested: false,
            accepts_document: false,
            nearly_full: None,
            version_emitted: false,
            untested: false,
            has_ended: false,
        })
    }

    async fn run(&mut self) -> Result<(), AdapterError> {
        loop {
            self.advance().await?;
            if self.has_ended {
                return Ok(());
            }
            match self.next_event().await {
                DriverEvent::Stop => return Ok(()),
                DriverEvent::Command(command) => self.command(command).await?,
                DriverEvent::Output(received) => self.output(received).await?,
                DriverEvent::Verdict(arrived) => self.verdict_arrived(arrived).await?,
                DriverEvent::ProcessEnded => self.process_ended().await?,
                DriverEvent::StartIsLate => self.start_is_late().await?,
                DriverEvent::InterruptIsLate => self.interrupt_is_late().await?,
                DriverEvent::UsageIsLate => self.usage_is_known(),
            }
        }
    }

    async fn next_event(&mut self) -> DriverEvent {
        if self.initializing.is_none() {
            if let Some(received) = self.backlog.pop_front() {
                return DriverEvent::Output(received);
            }
            if let Some(command) = self.deferred_commands.pop_front() {
                return DriverEvent::Command(command);
            }
        }
        let start_until = self.initializing.as_ref().map(|initializing| initializing.until);
        let Self { commands, process, interrupt_until, unmetered, verdicts, .. } = self;
        let received = async {
            match process {
                Some(process) => process.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = commands.recv() => command.map_or(DriverEvent::Stop, DriverEvent::Command),
            received = received => received.map_or(DriverEvent::ProcessEnded, DriverEvent::Output),
            Some(arrived) = verdicts.next() => DriverEvent::Verdict(arrived),
            () = wait_until(start_until) => DriverEvent::StartIsLate,
            () = wait_until(*interrupt_until) => DriverEvent::InterruptIsLate,
            () = wait_until(unmetered.until()) => DriverEvent::UsageIsLate,
        }
    }

    /// Acknowledges completed commands, and gives the agent its next messages.
    async fn advance(&mut self) -> Result<(), AdapterError> {
        if !self.interrupts.is_empty() && self.is_interrupted() {
            self.interrupt_until = None;
            self.end_tools().await;
            self.translator.interrupt_over();
            self.interrupts.done().await?;
        }
        if !self.pausing.is_empty() && self.is_still() {
            self.pausing.done().await?;
        }
        if self.has_ended || !self.interrupts.is_empty() || self.initializing.is_some() {
            return Ok(());
        }
        if self.tool_hooks.mode() == Mode::Paused {
            if self.is_ready() && !self.paused {
                // An agent that is only held for its allowance gets its task, and waits before the first model call.
                self.write_kept().await?;
            }
            return Ok(());
        }
        let between_turns =
            self.translator.turn_id().is_none() && !self.messages.any_written() && self.compacting.is_none();
        if between_turns && std::mem::take(&mut self.restart_due) {
            self.end_process().await;
        }
        if between_turns && let Some((instructions, reply)) = self.compactions.next() {
            return self.compact(instructions, reply).await;
        }
        if self.compacting.is_none() {
            self.deliver_messages().await?;
        }
        Ok(())
    }

    /// Whether no part of the agent can begin any work (decision 15).
    pub(super) fn is_still(&self) -> bool {
        if !self.is_ready() {
            return true;
        }
        // With an exceeded quota, the main loop has stopped, even within its turn. It is about to process a message
        // that was written.
        let main = (self.translator.main_loop_is_open() && !self.waits_for_model)
            || (self.translator.turn_id().is_none() && self.messages.any_given());
        let waits = |call: &str| {
            self.permissions.waits(call)
                || self.verdicts.waits(call)
                || self.requests_during_pause.iter().any(|line| asks_for(line) == Some(call))
        };
        self.compacting.is_none() && self.tool_hooks.is_still(main, self.translator.open_subagents(), waits)
    }

    fn is_interrupted(&self) -> bool {
        use super::control_channel::ControlRequest;
        self.process.is_none()
            || (self.translator.turn_id().is_none()
                && self.translator.open_subagents().next().is_none()
                && !self.messages.any_written()
                && self.compacting.is_none()
                && !self.control_channel.waits_for(|asked| {
                    matches!(asked, ControlRequest::Interrupt | ControlRequest::CancelMessage(_))
                }))
    }

    /// Ends the processes that the turn's calls have started, whatever Claude Code reports. If that fails, ends Claude
    /// Code as well.
    pub(super) async fn end_tools(&mut self) {
        let open = std::mem::take(&mut self.interrupted_in_call);
        if let Some(process) = &self.process
            && let Err(error) = process.tools.end(open).await
        {
            warn!(%error, "failed to end the tool processes; ending the agent's process too");
            self.end_process().await;
        }
    }

    /// Begins to wait for the end of the turn.
    pub(super) fn interrupting(&mut self, reply: Reply) {
        self.interrupts.push(reply);
        self.interrupt_until = Some(Instant::now() + INTERRUPT_LIMIT);
    }

    /// Reports limits of the brief that Claude Code has no options for.
    pub(super) async fn report_limits(&mut self) -> Result<(), AdapterError> {
        let why = "Claude Code has no option for these limits of the brief";
        match limits_left_out(&self.config, &["maxTurns"], why) {
            Some(left_out) => Ok(self.events.emit(left_out).await?),
            None => Ok(()),
        }
    }

    pub(super) async fn emit_settings(&mut self) -> Result<(), AdapterError> {
        let event = RawEvent::AgentSettings {
            model_id: self.model.clone(),
            thinking_level: self.thinking,
            available_models: self.models(),
        };
        Ok(self.events.emit(event).await?)
    }

    /// The available models: those of the options and the current one.
    pub(super) fn models(&self) -> Vec<String> {
        let mut models = self.options.models.clone();
        if !models.contains(&self.model) {
            models.insert(0, self.model.clone());
        }
        models
    }
}

/// The call that a permission request concerns.
fn asks_for(line: &Value) -> Option<&str> {
    text(line.get("request")?, "tool_use_id")
}
