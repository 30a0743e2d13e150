//! What the driver does with a command.

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;

use super::driver::{Break, Driver};
use super::options::Options;
use crate::adapter::{AgentCommand, PlanDecision, Refusal, Reply};
use crate::own_tools::requests::NotTaken;

impl Driver {
    /// Carries out a command.
    pub(super) async fn handle(&mut self, command: AgentCommand) -> Result<(), Break> {
        match command {
            AgentCommand::Begin(_, reply) => {
                Ok(reply.refuse(Refusal::invalid("the agent was started before")).await?)
            }
            AgentCommand::Message(message, reply) => self.message(message, reply).await,
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => {
                self.paused = true;
                self.pausing.push(reply);
                self.settle_pause().await
            }
            AgentCommand::Resume(reply) => self.resume(reply).await,
            AgentCommand::Reload(config, reply) => self.reload(*config, reply).await,
            AgentCommand::Adjust(adjustment, reply) => self.adjust(adjustment, reply).await,
            AgentCommand::Answer(request, answers, reply) => self.answer(&request, answers, reply).await,
            AgentCommand::PlanDecision(decision, reply) => self.decide(decision, reply).await,
        }
    }

    /// Ends the turn without `turn_completed`; done when nothing runs any more.
    async fn interrupt(&mut self, reply: Reply) -> Result<(), Break> {
        self.paused = false;
        self.over_budget = false;
        self.abort().await?;
        if let Some(turn) = self.turn.take() {
            self.refuse_given(&turn).await?;
        }
        // Nothing follows an interrupt by itself (ruling 29).
        for (_, reply) in std::mem::take(&mut self.held) {
            reply.refuse(Refusal { code: "turn-over", message: "the agent was interrupted".into() }).await?;
        }
        for pausing in std::mem::take(&mut self.pausing) {
            pausing.done().await?;
        }
        Ok(reply.done().await?)
    }

    async fn resume(&mut self, reply: Reply) -> Result<(), Break> {
        self.paused = false;
        self.over_budget = false;
        // A pause that is overtaken was none: whoever waits for it is told that it is over.
        for pausing in std::mem::take(&mut self.pausing) {
            pausing.done().await?;
        }
        reply.done().await?;
        if self.asked.is_some() {
            return self.reconsider().await;
        }
        if self.turn.is_some() && self.work.is_none() {
            return self.go_on_with_messages().await;
        }
        self.next_held().await
    }

    /// Between turns (ruling 25): system prompt, tools and skills at once.
    async fn reload(&mut self, config: AgentSessionConfig, reply: Reply) -> Result<(), Break> {
        if self.work.is_some() || !self.compacting.is_empty() {
            return Ok(reply.refuse(Refusal::invalid("the agent is working")).await?);
        }
        // Looked at before the conversation is closed: with a configuration that cannot be used it goes on as it is.
        let chosen = match (self.setup.model(&config.model_id), Options::read(&config.adapter_options)) {
            (Ok(model), Ok(_)) => model,
            (Err(error), _) | (_, Err(error)) => {
                return Ok(reply.refuse(Refusal::invalid(error.to_string())).await?);
            }
        };
        let summary = format!("now with the model {chosen}");
        self.reopen(config).await?;
        self.drain().await?;
        let notice = RawEvent::Notice { name: "config_reloaded".into(), summary, detail: None };
        let settings = self.setup.settings(self.session()?);
        let mut events = vec![notice, settings];
        events.extend(self.setup.notices());
        self.events.emit_all(events).await?;
        Ok(reply.done().await?)
    }

    async fn answer(
        &mut self,
        request: &ToolCallId,
        answers: Vec<Answer>,
        reply: Reply,
    ) -> Result<(), Break> {
        let taken = if self.work.is_some() {
            self.setup.requests.answer(request, answers).map(drop)
        } else {
            Err(NotTaken::NotOpen)
        };
        Ok(settle(taken, reply).await?)
    }

    async fn decide(&mut self, decision: PlanDecision, reply: Reply) -> Result<(), Break> {
        let taken = if self.work.is_some() {
            self.setup.requests.decide(decision).map(drop)
        } else {
            Err(NotTaken::NotOpen)
        };
        Ok(settle(taken, reply).await?)
    }
}

async fn settle(taken: Result<(), NotTaken>, reply: Reply) -> Result<(), crate::spool::SpoolError> {
    match taken {
        Ok(()) => reply.done().await,
        Err(why) => reply.refuse(Refusal::invalid(why.to_string())).await,
    }
}
