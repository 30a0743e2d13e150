//! Handles the commands of the control plane.

use pilothouse_wire::command::AgentSessionConfig;

use super::driver::Driver;
use super::options::Options;
use crate::adapter::{AgentCommand, OwnerAnswers, PlanDecision, Refusal, Reply};
use crate::kit::notices::notice;
use crate::kit::turns::DriverExit;
use crate::own_tools::requests::{NotTaken, settle};

impl Driver {
    pub(super) async fn handle(&mut self, command: AgentCommand) -> Result<(), DriverExit> {
        match command {
            AgentCommand::Begin(_, reply) => Ok(reply.refuse(Refusal::already_started()).await?),
            AgentCommand::Message(message, reply) => self.message(message, reply).await,
            AgentCommand::Interrupt(reply) => self.interrupt(reply).await,
            AgentCommand::Pause(reply) => {
                self.paused = true;
                self.pausing.push(reply);
                self.confirm_pause().await
            }
            AgentCommand::Resume(reply) => self.resume(reply).await,
            AgentCommand::Reload(config, reply) => self.reload(*config, reply).await,
            AgentCommand::Adjust(adjustment, reply) => self.adjust(adjustment, reply).await,
            AgentCommand::Answer(owner, reply) => self.answer(owner, reply).await,
            AgentCommand::PlanDecision(decision, reply) => self.decide(decision, reply).await,
        }
    }

    /// Ends the turn without `turn_completed`. Acknowledged when no work is running any more.
    async fn interrupt(&mut self, reply: Reply) -> Result<(), DriverExit> {
        self.paused = false;
        self.over_budget = false;
        self.abort().await?;
        if let Some(turn) = self.turn.take() {
            self.refuse_given(&turn).await?;
        }
        // Messages do not follow an interrupted turn (decision 29).
        for (_, reply) in self.held.take_all() {
            reply.refuse(Refusal { code: "turn-over", message: "the agent was interrupted".into() }).await?;
        }
        self.pausing.done().await?;
        Ok(reply.done().await?)
    }

    async fn resume(&mut self, reply: Reply) -> Result<(), DriverExit> {
        self.paused = false;
        self.over_budget = false;
        // The control plane resumes an unmetered session only with its owner's permission (decision 32). The end of an
        // outage, after which the sidecar itself resumes, permits nothing.
        self.allow_unmetered |= self.unmetered && !reply.is_internal();
        // A resume ends a pause that has not taken effect, and acknowledges it.
        self.pausing.done().await?;
        if let Ok(session) = self.session() {
            session.resume_commands();
        }
        reply.done().await?;
        if self.held_request.is_some() {
            return self.reconsider_held_request().await;
        }
        if self.turn.is_some() && self.work.is_none() {
            return self.deliver_messages().await;
        }
        self.next_held().await
    }

    /// Between turns (decision 25): replaces the system prompt, tools and skills together.
    async fn reload(&mut self, config: AgentSessionConfig, reply: Reply) -> Result<(), DriverExit> {
        if self.work.is_some() || !self.compacting.is_empty() {
            return Ok(reply.refuse(Refusal::invalid("the agent is working")).await?);
        }
        // Checked first, so that an invalid configuration leaves the conversation open.
        let chosen = match (self.setup.model(&config.model_id), Options::read(&config.adapter_options)) {
            (Ok(model), Ok(_)) => model,
            (Err(error), _) | (_, Err(error)) => {
                return Ok(reply.refuse(Refusal::invalid(error.to_string())).await?);
            }
        };
        let summary = format!("now with the model {chosen}");
        self.reopen(config).await?;
        self.drain().await?;
        let notice = notice("config_reloaded", summary);
        let settings = self.setup.settings(self.session()?);
        let mut events = vec![notice, settings];
        events.extend(self.setup.notices(&self.config));
        self.events.emit_all(events).await?;
        Ok(reply.done().await?)
    }

    async fn answer(&mut self, owner: OwnerAnswers, reply: Reply) -> Result<(), DriverExit> {
        let taken =
            if self.work.is_some() { self.setup.requests.answer(owner) } else { Err(NotTaken::NotOpen) };
        Ok(settle(taken, reply).await?)
    }

    async fn decide(&mut self, decision: PlanDecision, reply: Reply) -> Result<(), DriverExit> {
        let taken =
            if self.work.is_some() { self.setup.requests.decide(decision) } else { Err(NotTaken::NotOpen) };
        Ok(settle(taken, reply).await?)
    }
}
