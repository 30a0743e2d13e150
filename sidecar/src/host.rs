//! Executes commands. The host starts and stops the run's agent, and forwards commands to its adapter in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::CommandId;
use pilothouse_domain::value::{Adjustment, Capabilities};
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::{Ack, AckStep, SessionEnd};
use pilothouse_wire::launch::SidecarLaunch;
use pilothouse_wire::{Command, RawEvent};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::adapter::{
    Adapter, AdapterError, AgentCommand, AgentContext, EventSink, Message, MessageReply, OwnerAnswers,
    PlanDecision, Refusal, Reply,
};
use crate::drafts::Drafts;
use crate::kit::agent_env;
use crate::lease::Lease;
use crate::listener::ack_event;
use crate::offline::{Offline, Reason};
use crate::process::Processes;
use crate::secrets;
use crate::spool::{Outgoing, Spool, SpoolError};
use crate::validation::Validation;

/// How long an agent may take to stop before the host drops its task. Below the 60 seconds of decision 12.
const STOP_LIMIT: Duration = Duration::from_secs(45);
/// Upper bound for the time limit of a validation.
const MAX_VALIDATION: Duration = Duration::from_hours(24);

/// Whether the sidecar continues after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterCommand {
    Continue,
    /// The command was a stop, and the agent has been stopped.
    End,
}

/// How the task of an agent ended.
pub type Ended = Result<Result<(), AdapterError>, JoinError>;

struct Agent {
    commands: mpsc::UnboundedSender<AgentCommand>,
    task: JoinHandle<Result<(), AdapterError>>,
}

pub struct Host {
    launch: Arc<SidecarLaunch>,
    spool: Spool,
    adapter: Option<Box<dyn Adapter>>,
    capabilities: Capabilities,
    agent: Option<Agent>,
    validation: Option<Validation>,
    abandoned: mpsc::UnboundedSender<CommandId>,
    processes: Processes,
    lease: Lease,
    events: EventSink,
    offline: Arc<Offline>,
    /// Set while the sidecar itself has paused the agent.
    held: Option<Reason>,
    /// Set while the control plane has paused the agent.
    paused: bool,
    /// The reason why the agent must not be started: a sentence for people.
    refusal: Option<String>,
}

/// An event that no command caused directly.
#[derive(Debug)]
pub enum HostEvent {
    Ended(Ended),
    /// A validation ended: the command that ordered it, and the event to publish.
    Validated(CommandId, Box<RawEvent>),
}

impl Host {
    /// Creates a host that starts `adapter` on `begin`. The receiver yields the commands that an agent left
    /// unanswered when it ended.
    pub fn new(
        launch: Arc<SidecarLaunch>,
        spool: Spool,
        adapter: Box<dyn Adapter>,
        processes: Processes,
        lease: Lease,
    ) -> (Self, mpsc::UnboundedReceiver<CommandId>) {
        let (abandoned, receiver) = mpsc::unbounded_channel();
        let capabilities = adapter.capabilities();
        let events = EventSink::new(spool.clone());
        events.spend().set_capabilities(&capabilities);
        let offline = Arc::new(Offline::new(launch.offline, events.spend().clone()));
        (
            Self {
                launch,
                spool,
                adapter: Some(adapter),
                capabilities,
                agent: None,
                validation: None,
                abandoned,
                processes,
                lease,
                events,
                offline,
                held: None,
                paused: false,
                refusal: None,
            },
            receiver,
        )
    }

    /// Makes the run fail at the command that would start its agent.
    pub fn refuse_agent(&mut self, why: String) {
        self.refusal = Some(why);
    }

    /// The text that the agent is writing.
    pub(crate) const fn drafts(&self) -> &Drafts {
        self.events.drafts()
    }

    pub fn offline(&self) -> Arc<Offline> {
        Arc::clone(&self.offline)
    }

    /// Whether an agent is running that can be paused and is not paused yet.
    pub const fn can_pause_agent(&self) -> bool {
        self.agent.is_some() && self.capabilities.pause && !self.paused && self.held.is_none()
    }

    /// Why the sidecar itself has paused the agent, if it has.
    pub const fn held(&self) -> Option<Reason> {
        self.held
    }

    /// Lasts until [`Self::release`], or until a command of the control plane changes the pause.
    pub async fn hold(&mut self, reason: Reason) -> Result<(), SpoolError> {
        warn!(?reason, "the control plane is unreachable; pausing the agent");
        self.held = Some(reason);
        self.command_agent(AgentCommand::Pause);
        self.notice("offline_paused", reason.summary()).await
    }

    /// Resumes the agent after [`Self::hold`].
    pub async fn release(&mut self) -> Result<(), SpoolError> {
        info!("the control plane is reachable again; resuming the agent");
        self.held = None;
        self.command_agent(AgentCommand::Resume);
        self.notice("offline_resumed", "The control plane can be reached again.".into()).await
    }

    fn command_agent(&self, command: fn(Reply) -> AgentCommand) {
        let id = CommandId::new(Uuid::now_v7());
        if let Some(agent) = &self.agent {
            // The send fails only if the agent has just ended and needs no pause.
            let _ = agent.commands.send(command(Reply::internal(id, self.abandoned.clone())));
        }
    }

    async fn notice(&self, name: &str, summary: String) -> Result<(), SpoolError> {
        let notice = RawEvent::Notice { name: name.into(), summary, detail: None };
        self.spool.append(Outgoing::event(notice)?).await.map(drop)
    }

    /// Records that the agent died with an earlier process of the sidecar. A run starts only one agent (decision 7).
    pub fn mark_agent_lost(&mut self) {
        self.adapter = None;
    }

    /// Executes a command, or forwards it to the agent, which acknowledges it.
    pub async fn execute(&mut self, issued: IssuedCommand) -> Result<AfterCommand, SpoolError> {
        let IssuedCommand { command_id, command, .. } = issued;
        info!(command = command.name(), %command_id, "executing a command");
        if aborts_validation(&command) {
            self.abort_validation().await?;
        }
        if let Command::RunValidation { criteria, timeout_seconds } = command {
            let folder = PathBuf::from(&self.launch.request.working_directory);
            let limit = Duration::from_secs(timeout_seconds).min(MAX_VALIDATION);
            let (processes, redactor) = (self.processes.clone(), self.spool.redactor().clone());
            self.validation =
                Some(Validation::begin(command_id, criteria, limit, folder, processes, redactor));
            return Ok(AfterCommand::Continue);
        }
        if matches!(command, Command::Stop {}) {
            self.stop_agent().await?;
            let done = RawEvent::StopAck(Ack { command_id, step: AckStep::Done });
            self.spool.acknowledge(command_id, done, true).await?;
            return Ok(AfterCommand::End);
        }
        if matches!(command, Command::Begin(_))
            && let Some(why) = self.refusal.take()
        {
            self.adapter = None;
            self.refuse(command_id, Refusal::invalid(why.clone())).await?;
            self.record_agent_end(Ok(Err(AdapterError::Configuration(why)))).await?;
            return Ok(AfterCommand::Continue);
        }
        if let Err(refusal) = self.forward_command(command_id, command) {
            self.refuse(command_id, refusal).await?;
        }
        Ok(AfterCommand::Continue)
    }

    pub async fn refuse(&self, command_id: CommandId, refusal: Refusal) -> Result<(), SpoolError> {
        self.spool.acknowledge(command_id, refusal.event(command_id), true).await
    }

    fn forward_command(&mut self, id: CommandId, command: Command) -> Result<(), Refusal> {
        let name = command.name();
        if matches!(command, Command::Begin(_)) {
            self.start()?;
        }
        if self.agent.is_none() {
            return Err(Refusal::no_agent());
        }
        let supported = match &command {
            Command::Pause {} | Command::Resume {} => self.capabilities.pause,
            Command::ReloadConfig { .. } => self.capabilities.hot_reload,
            Command::Adjust { adjustment } => self.capabilities.can_adjust(adjustment),
            // Permission requests reach the owner as questions.
            Command::Answer { .. } => self.capabilities.questions || self.capabilities.approvals,
            Command::PlanDecision { .. } => self.capabilities.plans,
            _ => true,
        };
        if !supported {
            return Err(Refusal::not_supported(name));
        }
        self.note(&command);
        let ack = ack_event(&command);
        let reply = || {
            let ack = ack.ok_or_else(|| Refusal::not_supported(name))?;
            Ok(Reply::new(id, ack, self.spool.clone(), self.abandoned.clone()))
        };
        let command = match command {
            Command::Begin(mut begin) => {
                self.fill_in_secrets(&mut begin.config.adapter_options);
                AgentCommand::Begin(begin, reply()?)
            }
            Command::Interrupt {} => AgentCommand::Interrupt(reply()?),
            Command::Pause {} => AgentCommand::Pause(reply()?),
            Command::Resume {} => AgentCommand::Resume(reply()?),
            Command::ReloadConfig { mut config } => {
                self.fill_in_secrets(&mut config.adapter_options);
                AgentCommand::Reload(config, reply()?)
            }
            Command::Adjust { adjustment } => AgentCommand::Adjust(adjustment, reply()?),
            Command::Answer { request_id, answers, modified_input } => {
                let answers = OwnerAnswers { request: request_id, answers, modified_input };
                AgentCommand::Answer(answers, reply()?)
            }
            Command::PlanDecision { request_id, approved, feedback } => {
                AgentCommand::PlanDecision(PlanDecision { request: request_id, approved, feedback }, reply()?)
            }
            Command::SteeringMessage { message_id, content, images, priority, source, expected_turn_id } => {
                let expected_turn = expected_turn_id;
                let message = Message { id: message_id, content, images, priority, source, expected_turn };
                let reply = MessageReply::new(id, message_id, self.spool.clone(), self.abandoned.clone());
                AgentCommand::Message(message, reply)
            }
            // The host and the spool execute these without the agent.
            Command::Stop {} | Command::Replay { .. } | Command::RunValidation { .. } => {
                return Err(Refusal::not_supported(name));
            }
        };
        let agent = self.agent.as_ref().ok_or_else(Refusal::no_agent)?;
        // If the agent has just ended, dropping the command with its reply refuses it.
        let _ = agent.commands.send(command);
        Ok(())
    }

    /// Replaces references to secrets in the options of the adapter. The values of variables that the options refer to are redacted in
    /// events.
    fn fill_in_secrets(&self, options: &mut Value) {
        let referenced = agent_env::referenced(options, agent_env::own_variable);
        for secret in &referenced {
            self.events.keep_secret(secret);
        }
        secrets::fill_in(options, self.processes.secrets());
    }

    /// Tracks the cap and the pause, on which [`Self::can_pause_agent`] and the offline limits depend.
    fn note(&mut self, command: &Command) {
        match command {
            Command::Begin(begin) => {
                self.offline.set_cap(begin.allowance_usd.as_deref());
                self.events.spend().begin(begin.resume_conversation);
            }
            Command::Adjust { adjustment: Adjustment::SetAllowance { allowance_usd } } => {
                self.offline.set_cap(allowance_usd.as_deref());
            }
            Command::Pause {} => (self.paused, self.held) = (true, None),
            Command::Resume {} | Command::Interrupt {} => (self.paused, self.held) = (false, None),
            _ => {}
        }
    }

    fn start(&mut self) -> Result<(), Refusal> {
        if self.agent.is_some() {
            return Err(Refusal::invalid("the agent of this run was started before"));
        }
        let adapter = self.adapter.take().ok_or_else(Refusal::no_agent)?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let context = AgentContext {
            launch: Arc::clone(&self.launch),
            events: self.events.clone(),
            commands: receiver,
            processes: self.processes.clone(),
            lease: self.lease.clone(),
        };
        self.agent = Some(Agent { commands, task: tokio::spawn(adapter.run(context)) });
        Ok(())
    }

    /// Waits until the agent ends or a validation ends. Pending forever if there is neither. Cancel-safe.
    pub async fn next_event(&mut self) -> HostEvent {
        let Self { agent, validation, .. } = self;
        let ended = async {
            match agent {
                Some(agent) => (&mut agent.task).await,
                None => std::future::pending().await,
            }
        };
        let validated = async {
            match validation {
                Some(validation) => (validation.command_id(), validation.ended().await),
                None => std::future::pending().await,
            }
        };
        let (command_id, result) = tokio::select! {
            ended = ended => return HostEvent::Ended(ended),
            over = validated => over,
        };
        self.validation = None;
        HostEvent::Validated(command_id, Box::new(result))
    }

    pub async fn publish_result(&self, command_id: CommandId, result: RawEvent) -> Result<(), SpoolError> {
        self.spool.acknowledge(command_id, result, true).await
    }

    async fn abort_validation(&mut self) -> Result<(), SpoolError> {
        let Some(validation) = self.validation.take() else { return Ok(()) };
        let command_id = validation.command_id();
        let result = validation.break_off().await;
        self.spool.acknowledge(command_id, result, true).await
    }

    /// Records the end of the agent. If its adapter failed, the conversation ends with an error.
    pub async fn record_agent_end(&mut self, ended: Ended) -> Result<(), SpoolError> {
        self.agent = None;
        self.held = None;
        let message = match ended {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(AdapterError::Spool(e))) => return Err(e),
            Ok(Err(e)) => e.to_string(),
            Err(e) if e.is_cancelled() => return Ok(()),
            Err(_) => "the adapter panicked".to_owned(),
        };
        // It may contain the last words of the agent.
        let message = self.spool.redactor().text(&message).unwrap_or(message);
        error!(message, "the agent failed");
        let end = SessionEnd {
            is_error: true,
            reason: "adapter_error".into(),
            message: Some(message),
            output: None,
        };
        self.spool.append(Outgoing::event(RawEvent::SessionEnd(end))?).await.map(drop)
    }

    /// When this returns, the agent does nothing any more.
    pub async fn stop_agent(&mut self) -> Result<(), SpoolError> {
        self.adapter = None;
        self.abort_validation().await?;
        let Some(Agent { commands, mut task }) = self.agent.take() else { return Ok(()) };
        drop(commands);
        let ended = if let Ok(ended) = tokio::time::timeout(STOP_LIMIT, &mut task).await {
            ended
        } else {
            warn!("the agent did not stop in time; its task is dropped");
            task.abort();
            task.await
        };
        self.record_agent_end(ended).await
    }
}

/// Whether a command makes the agent continue or stop, which ends a running validation.
const fn aborts_validation(command: &Command) -> bool {
    matches!(
        command,
        Command::Begin(_)
            | Command::SteeringMessage { .. }
            | Command::Interrupt {}
            | Command::Pause {}
            | Command::Stop {}
            | Command::RunValidation { .. }
    )
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use pilothouse_domain::session::AgentOptions;
    use pilothouse_wire::command::{AgentSessionConfig, Begin, BriefPolicies};

    use super::*;
    use crate::spool::tests::{launch, open};

    /// Supports only `begin` and `interrupt`, and ends on request.
    struct Plain;

    #[async_trait]
    impl Adapter for Plain {
        fn name(&self) -> &'static str {
            "plain"
        }
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }
        async fn run(self: Box<Self>, mut context: AgentContext) -> Result<(), AdapterError> {
            while let Some(command) = context.commands.recv().await {
                match command {
                    AgentCommand::Begin(_, reply) | AgentCommand::Interrupt(reply) => reply.done().await?,
                    // Leaves the reply unanswered.
                    _ => return Err(AdapterError::Agent("fell over".into())),
                }
            }
            Ok(())
        }
    }

    fn issued(n: u128, command: Command) -> IssuedCommand {
        IssuedCommand { command_id: CommandId::new(Uuid::from_u128(n)), attempt: 1, command }
    }

    fn begin() -> Command {
        let config = AgentSessionConfig {
            model_id: "m".into(),
            thinking_level: None,
            composed_system_prompt: String::new(),
            allowed_tools: vec![],
            custom_tools: vec![],
            sub_agents: vec![],
            working_directory: "/".into(),
            objective: "x".into(),
            options: AgentOptions {
                plan_approval_required: false,
                context_warn_at_percent: 80,
                ..AgentOptions::default()
            },
            policies: BriefPolicies::default(),
            handoff: None,
            adapter_options: serde_json::Value::Null,
        };
        Command::Begin(Box::new(Begin {
            config,
            resume_conversation: false,
            prompt: None,
            images: Vec::new(),
            allowance_usd: None,
            allow_unmetered: false,
        }))
    }

    async fn said(spool: &Spool) -> Vec<String> {
        let batch = spool.batch(100, usize::MAX).await.unwrap();
        let body = |e: crate::spool::BatchEntry| {
            let signed = pilothouse_wire::Signed::parse(&e.body).unwrap();
            let envelope: serde_json::Value = serde_json::from_str(signed.envelope.get()).unwrap();
            let part = |name: &str| envelope["body"][name].as_str().unwrap_or("").to_owned();
            format!("{} {}{}{}", part("type"), part("step"), part("code"), part("reason"))
        };
        batch.entries.into_iter().map(body).collect()
    }

    #[tokio::test]
    async fn unsupported_command_is_refused_and_stop_is_done_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let (mut host, _abandoned) = Host::new(
            Arc::new(launch()),
            spool.clone(),
            Box::new(Plain),
            Processes::unguarded(),
            Lease::default(),
        );
        for (n, command) in [(1, begin()), (2, Command::Pause {}), (3, Command::Interrupt {})] {
            assert_eq!(host.execute(issued(n, command)).await.unwrap(), AfterCommand::Continue);
        }
        assert_eq!(host.execute(issued(4, Command::Stop {})).await.unwrap(), AfterCommand::End);
        assert_eq!(host.execute(issued(5, Command::Interrupt {})).await.unwrap(), AfterCommand::Continue);
        let mut said = said(&spool).await;
        assert_eq!(said.split_off(3), ["stop_ack done", "command_refused no-agent"]);
        said.sort();
        assert_eq!(said, ["begin_ack done", "command_refused not-supported", "interrupt_ack done"]);
    }

    #[tokio::test]
    async fn command_that_crashed_the_agent_is_returned_with_the_failure() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let (mut host, mut abandoned) = Host::new(
            Arc::new(launch()),
            spool.clone(),
            Box::new(Plain),
            Processes::unguarded(),
            Lease::default(),
        );
        host.execute(issued(1, begin())).await.unwrap();
        let message = Command::SteeringMessage {
            message_id: pilothouse_domain::MessageId::new(Uuid::from_u128(7)),
            content: "x".into(),
            images: Vec::new(),
            priority: pilothouse_domain::value::MessagePriority::Immediate,
            source: pilothouse_domain::value::MessageSource::User,
            expected_turn_id: None,
        };
        host.execute(issued(2, message)).await.unwrap();
        let HostEvent::Ended(ended) = host.next_event().await else { panic!("nothing is validated") };
        host.record_agent_end(ended).await.unwrap();
        assert_eq!(abandoned.recv().await, Some(CommandId::new(Uuid::from_u128(2))));
        assert_eq!(said(&spool).await, ["begin_ack done", "session_end adapter_error"]);
    }
}
