//! Carries out commands: hands them to the agent in order, and knows whether there is one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::CommandId;
use pilothouse_domain::value::Capabilities;
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::{Ack, AckStep, SessionEnd};
use pilothouse_wire::launch::SidecarLaunch;
use pilothouse_wire::{Command, RawEvent};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tracing::{error, info, warn};

use crate::adapter::{
    Adapter, AdapterError, AgentCommand, AgentContext, EventSink, Message, MessageReply, PlanDecision,
    Refusal, Reply,
};
use crate::listener::ack_event;
use crate::process::Processes;
use crate::spool::{Outgoing, Spool, SpoolError};
use crate::validation::Validation;

/// How long an agent may take to stop before its task is dropped; below the 60 s of ruling 12.
const STOP_LIMIT: Duration = Duration::from_secs(45);

/// What a command means for the sidecar itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It goes on.
    GoOn,
    /// It was told to end, and the agent is stopped.
    End,
}

/// How the task of an agent ended.
pub type Ended = Result<Result<(), AdapterError>, JoinError>;

struct Agent {
    commands: mpsc::UnboundedSender<AgentCommand>,
    task: JoinHandle<Result<(), AdapterError>>,
}

/// Holds the agent of the run.
pub struct Host {
    launch: Arc<SidecarLaunch>,
    spool: Spool,
    adapter: Option<Box<dyn Adapter>>,
    capabilities: Capabilities,
    agent: Option<Agent>,
    validation: Option<Validation>,
    abandoned: mpsc::UnboundedSender<CommandId>,
    processes: Processes,
}

/// What happened by itself.
#[derive(Debug)]
pub enum Happened {
    /// The agent ended.
    Ended(Ended),
    /// A validation is over: what ordered it, and what is to be told.
    Validated(CommandId, Box<RawEvent>),
}

impl Host {
    /// A host that starts `adapter` on `begin`. Commands whose agent ended under them come out of the receiver.
    pub fn new(
        launch: Arc<SidecarLaunch>,
        spool: Spool,
        adapter: Box<dyn Adapter>,
        processes: Processes,
    ) -> (Self, mpsc::UnboundedReceiver<CommandId>) {
        let (abandoned, receiver) = mpsc::unbounded_channel();
        let capabilities = adapter.capabilities();
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
            },
            receiver,
        )
    }

    /// The agent of this run died with an earlier process of the sidecar: no other one is started (ruling 7).
    pub fn agent_was_lost(&mut self) {
        self.adapter = None;
    }

    /// Carries out a command, or hands it to the agent, which acknowledges it when it is done.
    pub async fn execute(&mut self, issued: IssuedCommand) -> Result<Next, SpoolError> {
        let IssuedCommand { command_id, command, .. } = issued;
        info!(command = command.name(), %command_id, "carrying out");
        if disturbs_validation(&command) {
            self.break_validation_off().await?;
        }
        if let Command::RunValidation { criteria, timeout_seconds } = command {
            let folder = PathBuf::from(&self.launch.request.working_directory);
            let limit = Duration::from_secs(timeout_seconds);
            self.validation =
                Some(Validation::begin(command_id, criteria, limit, folder, self.processes.clone()));
            return Ok(Next::GoOn);
        }
        if matches!(command, Command::Stop {}) {
            self.stop_agent().await?;
            let done = RawEvent::StopAck(Ack { command_id, step: AckStep::Done });
            self.spool.acknowledge(command_id, done, true).await?;
            return Ok(Next::End);
        }
        if let Err(refusal) = self.hand_over(command_id, command) {
            self.refuse(command_id, refusal).await?;
        }
        Ok(Next::GoOn)
    }

    /// Refuses a command.
    pub async fn refuse(&self, command_id: CommandId, refusal: Refusal) -> Result<(), SpoolError> {
        self.spool.acknowledge(command_id, refusal.event(command_id), true).await
    }

    fn hand_over(&mut self, id: CommandId, command: Command) -> Result<(), Refusal> {
        let name = command.name();
        if matches!(command, Command::Begin(_)) {
            self.start()?;
        }
        let agent = self.agent.as_ref().ok_or_else(Refusal::no_agent)?;
        let supported = match &command {
            Command::Pause {} | Command::Resume {} => self.capabilities.pause,
            Command::ReloadConfig { .. } => self.capabilities.hot_reload,
            Command::Adjust { adjustment } => self.capabilities.can_adjust(adjustment),
            Command::Answer { .. } => self.capabilities.questions,
            Command::PlanDecision { .. } => self.capabilities.plans,
            _ => true,
        };
        if !supported {
            return Err(Refusal::not_supported(name));
        }
        let ack = ack_event(&command);
        let reply = || {
            let ack = ack.ok_or_else(|| Refusal::not_supported(name))?;
            Ok(Reply::new(id, ack, self.spool.clone(), self.abandoned.clone()))
        };
        let command = match command {
            Command::Begin(begin) => AgentCommand::Begin(begin, reply()?),
            Command::Interrupt {} => AgentCommand::Interrupt(reply()?),
            Command::Pause {} => AgentCommand::Pause(reply()?),
            Command::Resume {} => AgentCommand::Resume(reply()?),
            Command::ReloadConfig { config } => AgentCommand::Reload(config, reply()?),
            Command::Adjust { adjustment } => AgentCommand::Adjust(adjustment, reply()?),
            Command::Answer { request_id, answers } => AgentCommand::Answer(request_id, answers, reply()?),
            Command::PlanDecision { request_id, approved, feedback } => {
                AgentCommand::PlanDecision(PlanDecision { request: request_id, approved, feedback }, reply()?)
            }
            Command::SteeringMessage { message_id, content, priority, source, expected_turn_id } => {
                let message =
                    Message { id: message_id, content, priority, source, expected_turn: expected_turn_id };
                let reply = MessageReply::new(id, message_id, self.spool.clone(), self.abandoned.clone());
                AgentCommand::Message(message, reply)
            }
            // Carried out before an agent is asked: by the host, and when it was taken.
            Command::Stop {} | Command::Replay { .. } | Command::RunValidation { .. } => {
                return Err(Refusal::not_supported(name));
            }
        };
        // When the agent has just ended, the command is dropped with its reply, which refuses it.
        let _ = agent.commands.send(command);
        Ok(())
    }

    fn start(&mut self) -> Result<(), Refusal> {
        if self.agent.is_some() {
            return Err(Refusal::invalid("the agent of this run was started before"));
        }
        let adapter = self.adapter.take().ok_or_else(Refusal::no_agent)?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let events = EventSink::new(self.spool.clone());
        let context = AgentContext {
            launch: Arc::clone(&self.launch),
            events,
            commands: receiver,
            processes: self.processes.clone(),
        };
        self.agent = Some(Agent { commands, task: tokio::spawn(adapter.run(context)) });
        Ok(())
    }

    /// Returns when the agent ends by itself, or a validation is over; never, while there is neither. May be cancelled.
    pub async fn happened(&mut self) -> Happened {
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
            ended = ended => return Happened::Ended(ended),
            over = validated => over,
        };
        self.validation = None;
        Happened::Validated(command_id, Box::new(result))
    }

    /// Tells what came of a command that is over.
    pub async fn tell(&self, command_id: CommandId, result: RawEvent) -> Result<(), SpoolError> {
        self.spool.acknowledge(command_id, result, true).await
    }

    async fn break_validation_off(&mut self) -> Result<(), SpoolError> {
        let Some(validation) = self.validation.take() else { return Ok(()) };
        let command_id = validation.command_id();
        let result = validation.break_off().await;
        self.spool.acknowledge(command_id, result, true).await
    }

    /// Notes that the agent is over. A failure of the adapter is the end of the agent's conversation.
    pub async fn bury(&mut self, ended: Ended) -> Result<(), SpoolError> {
        self.agent = None;
        let message = match ended {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(AdapterError::Spool(e))) => return Err(e),
            Ok(Err(e)) => e.to_string(),
            Err(e) if e.is_cancelled() => return Ok(()),
            Err(_) => "the adapter panicked".to_owned(),
        };
        error!(message, "the agent failed");
        let end = SessionEnd {
            is_error: true,
            reason: "adapter_error".into(),
            message: Some(message),
            output: None,
        };
        self.spool.append(Outgoing::event(RawEvent::SessionEnd(end))?).await.map(drop)
    }

    /// Stops the agent. When this returns it does nothing any more.
    pub async fn stop_agent(&mut self) -> Result<(), SpoolError> {
        self.adapter = None;
        self.break_validation_off().await?;
        let Some(Agent { commands, mut task }) = self.agent.take() else { return Ok(()) };
        drop(commands);
        let ended = if let Ok(ended) = tokio::time::timeout(STOP_LIMIT, &mut task).await {
            ended
        } else {
            warn!("the agent did not stop in time; its task is dropped");
            task.abort();
            task.await
        };
        self.bury(ended).await
    }
}

/// Whether the agent is about to go on, or all is to stop: nothing is checked beside that.
const fn disturbs_validation(command: &Command) -> bool {
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
    use pilothouse_wire::command::{AgentSessionConfig, Begin};
    use uuid::Uuid;

    use super::*;
    use crate::spool::tests::{launch, open};

    /// Can do nothing but begin, and ends when it is told to.
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
                    // Keeps no promise to answer.
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
            plan_approval_required: false,
            context_warn_at_percent: 80,
            context_policy: pilothouse_domain::value::ContextPolicy::default(),
            handoff: None,
            adapter_options: serde_json::Value::Null,
        };
        Command::Begin(Box::new(Begin {
            config,
            resume_conversation: false,
            prompt: None,
            allowance_usd: None,
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
    async fn what_the_adapter_cannot_do_is_refused_and_a_stop_is_done_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let (mut host, _abandoned) =
            Host::new(Arc::new(launch()), spool.clone(), Box::new(Plain), Processes::unguarded());
        for (n, command) in [(1, begin()), (2, Command::Pause {}), (3, Command::Interrupt {})] {
            assert_eq!(host.execute(issued(n, command)).await.unwrap(), Next::GoOn);
        }
        assert_eq!(host.execute(issued(4, Command::Stop {})).await.unwrap(), Next::End);
        assert_eq!(host.execute(issued(5, Command::Interrupt {})).await.unwrap(), Next::GoOn);
        let mut said = said(&spool).await;
        assert_eq!(said.split_off(3), ["stop_ack done", "command_refused no-agent"]);
        said.sort();
        assert_eq!(said, ["begin_ack done", "command_refused not-supported", "interrupt_ack done"]);
    }

    #[tokio::test]
    async fn a_command_under_which_the_agent_fell_over_comes_back_and_the_failure_ends_the_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        let (mut host, mut abandoned) =
            Host::new(Arc::new(launch()), spool.clone(), Box::new(Plain), Processes::unguarded());
        host.execute(issued(1, begin())).await.unwrap();
        let message = Command::SteeringMessage {
            message_id: pilothouse_domain::MessageId::new(Uuid::from_u128(7)),
            content: "x".into(),
            priority: pilothouse_domain::value::MessagePriority::Immediate,
            source: pilothouse_domain::value::MessageSource::User,
            expected_turn_id: None,
        };
        host.execute(issued(2, message)).await.unwrap();
        let Happened::Ended(ended) = host.happened().await else { panic!("nothing is validated") };
        host.bury(ended).await.unwrap();
        assert_eq!(abandoned.recv().await, Some(CommandId::new(Uuid::from_u128(2))));
        assert_eq!(said(&spool).await, ["begin_ack done", "session_end adapter_error"]);
    }
}
