//! Handles the commands of the control plane.

use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content};
use tokio::sync::mpsc::error::TryRecvError;

use super::player::{Awaited, Player, PlayerExit, Settled};
use super::program::Body;
use crate::adapter::{AgentCommand, Message, MessageReply, Refusal, Reply};
use crate::kit::messages::{HeldMessage, refuse_late};
use crate::spool::SpoolError;

impl Player {
    pub(super) async fn command(&mut self) -> Result<(), PlayerExit> {
        let command = self.commands.recv().await.ok_or(PlayerExit::Over)?;
        self.handle(command).await
    }

    /// Handles all commands so far. Returns only when the agent is not paused.
    pub(super) async fn take_commands(&mut self) -> Result<(), PlayerExit> {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.handle(command).await?,
                Err(TryRecvError::Disconnected) => return Err(PlayerExit::Over),
                Err(TryRecvError::Empty) if self.paused => self.command().await?,
                Err(TryRecvError::Empty) => return Ok(()),
            }
        }
    }

    pub(super) async fn handle(&mut self, command: AgentCommand) -> Result<(), PlayerExit> {
        let name = name(&command);
        let carried_out = match command {
            AgentCommand::Begin(_, reply) => {
                reply.refuse(Refusal::already_started()).await?;
                Ok(())
            }
            AgentCommand::Message(message, reply) => self.message(message, reply).await,
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => {
                self.paused = true;
                reply.done().await?;
                let turn = self.turn_id();
                Ok(self.inject_after_stop(name, turn.as_ref()).await?)
            }
            AgentCommand::Resume(reply) => {
                self.paused = false;
                reply.done().await?;
                self.inject_held().await
            }
            AgentCommand::Reload(config, reply) => {
                self.config = *config;
                reply.done().await?;
                let summary = format!("now with the model {}", self.config.model_id);
                let detail = Some(self.configuration().into());
                let notice = RawEvent::Notice { name: "config_reloaded".into(), summary, detail };
                Ok(self.events.emit(notice).await?)
            }
            AgentCommand::Adjust(adjustment, reply) => self.adjust(adjustment, reply).await,
            AgentCommand::Answer(owner, reply) => {
                let request = &owner.request;
                let permission = self.awaited == Some(Awaited::Permission(request.clone()));
                if !permission && owner.modified_input.is_some() {
                    reply.refuse(Refusal::not_modifiable()).await?;
                    return Ok(());
                }
                let awaited = permission || self.awaited == Some(Awaited::Answer(request.clone()));
                if !awaited && self.will_await(request) {
                    reply.done().await?;
                    self.early.push((owner.request, owner.answers));
                    return Ok(());
                }
                Ok(self.settle(awaited, Settled::Answer(owner), reply).await?)
            }
            AgentCommand::PlanDecision(decision, reply) => {
                let awaited = self.awaited == Some(Awaited::Decision(decision.request.clone()));
                Ok(self.settle(awaited, Settled::Decision(decision), reply).await?)
            }
        };
        if matches!(&self.awaited, Some(Awaited::Command(awaited)) if awaited == name) {
            self.settled = Some(Settled::Command);
        }
        carried_out
    }

    async fn settle(&mut self, awaited: bool, settled: Settled, reply: Reply) -> Result<(), SpoolError> {
        if !awaited || self.settled.is_some() {
            return reply.refuse(Refusal::not_awaited()).await;
        }
        reply.done().await?;
        self.settled = Some(settled);
        Ok(())
    }

    async fn interrupt(&mut self, reply: Reply) -> Result<(), PlayerExit> {
        self.paused = false;
        let turn = self.drop_turn().await?;
        if let Some(turn) = &turn {
            // Messages do not follow an interrupted turn (decision 29).
            for (_, reply) in self.held.take_all() {
                reply.refuse(Refusal::turn_over(turn)).await?;
            }
        }
        reply.done().await?;
        self.inject_after_stop("interrupt", turn.as_ref()).await?;
        if turn.is_some() { Err(PlayerExit::Interrupted) } else { Ok(()) }
    }

    /// Injects the fault `afterStop`: emits events that a correct agent would not emit, to test the control plane.
    async fn inject_after_stop(&mut self, command: &str, turn: Option<&TurnId>) -> Result<(), SpoolError> {
        let Some(at) = self.after_stop.iter().position(|(name, _)| name == command) else { return Ok(()) };
        let bodies: Vec<Body> = self.after_stop.remove(at).1;
        let outgoing = bodies.into_iter().map(|body| self.outgoing(body, turn)).collect::<Result<_, _>>()?;
        self.events.spool().append_all(outgoing).await.map(drop)
    }

    async fn message(&mut self, message: Message, reply: MessageReply) -> Result<(), PlayerExit> {
        let turn = self.turn.as_ref().map(|turn| &turn.id);
        let Some((message, reply)) = refuse_late((message, reply), turn).await? else { return Ok(()) };
        let now = message.priority == MessagePriority::Immediate || self.awaited == Some(Awaited::Message);
        if self.turn.is_some() && now && !self.paused {
            return self.inject(message, reply, true).await;
        }
        self.held.push((message, reply));
        Ok(())
    }

    pub(super) async fn inject(
        &mut self,
        message: Message,
        mut reply: MessageReply,
        answer: bool,
    ) -> Result<(), PlayerExit> {
        self.last_images = self.images.load(&message.images, &self.events).await?;
        reply.injecting().await?;
        self.last_message = message.content;
        reply.injected().await?;
        if self.awaited == Some(Awaited::Message) {
            self.settled = Some(Settled::Message);
        } else if answer {
            self.steered += 1;
            let text = Content::Text(self.source.script.on_steer.clone());
            let content = AssistantContent::Text { text };
            let said = RawEvent::AssistantMessage { content, turn_id: None };
            let outgoing = self.outgoing(said.into(), self.turn_id().as_ref())?;
            self.events.spool().append(outgoing).await?;
        }
        Ok(())
    }

    /// Immediate messages from during a pause go first (decision 29).
    async fn inject_held(&mut self) -> Result<(), PlayerExit> {
        while self.turn.is_some() {
            let Some((message, reply)) = self.held.next_immediate() else { break };
            self.inject(message, reply, true).await?;
        }
        Ok(())
    }

    /// The message that may begin a turn now. Refuses messages that were meant for an earlier turn.
    pub(super) async fn next_held(&mut self) -> Result<Option<HeldMessage>, SpoolError> {
        while let Some(message) = self.held.first() {
            let turn = self.turn.as_ref().map(|turn| &turn.id);
            if let Some(message) = refuse_late(message, turn).await? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

const fn name(command: &AgentCommand) -> &'static str {
    match command {
        AgentCommand::Begin(..) => "begin",
        AgentCommand::Message(..) => "steering_message",
        AgentCommand::Interrupt(_) => "interrupt",
        AgentCommand::Pause(_) => "pause",
        AgentCommand::Resume(_) => "resume",
        AgentCommand::Reload(..) => "reload_config",
        AgentCommand::Adjust(..) => "adjust",
        AgentCommand::Answer(..) => "answer",
        AgentCommand::PlanDecision(..) => "plan_decision",
    }
}
