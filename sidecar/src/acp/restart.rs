//! Starts a new process in the same conversation: after the agent was killed or ended, and for a new configuration.

use pilothouse_wire::command::AgentSessionConfig;

use super::agents::Resumption;
use super::driver::Driver;
use super::introduction::{instructions, introduction};
use super::options::{self, Launch};
use super::start::Started;
use super::terminals::Terminals;
use crate::adapter::{AdapterError, Refusal, Reply};
use crate::kit::start::{GIVEN_UP, Restart, later_start};
use crate::kit::turns::DriverExit;

impl Driver {
    /// Starts the agent if it is not running: in its conversation or, if it cannot resume that, in a new one with a
    /// notice. Commands that arrive meanwhile are handled afterwards. Returns `false` if a pause or an interrupt has ended the start: the
    /// caller keeps its work for the resume, or for the interrupt to end it.
    pub(super) async fn ensure_running(&mut self) -> Result<bool, DriverExit> {
        if self.agent.is_some() {
            return Ok(true);
        }
        let earlier = Some(self.conversation.clone());
        // Boxed, because many futures of the driver contain this one.
        let starting = Box::pin(self.starter.start(&self.config, earlier));
        let started = match later_start(&mut self.commands, &mut self.deferred_commands, starting).await? {
            Restart::Done(started) => started.map_err(DriverExit::agent)?,
            Restart::GivenUp => return Ok(false),
            Restart::Over => return Err(DriverExit::Over),
        };
        let Started { agent, advertised, conversation, translator, notices } = started;
        if !conversation.introduced {
            self.introduction = introduction(&self.config, &advertised, conversation.earlier.as_ref());
        }
        if conversation.id != self.conversation.id {
            // The new conversation counts from zero, and an allowance counts from the beginning of the run.
            let spent = self.translator.meter.spent();
            self.spending.allowance.carry_over(spent, conversation.totals.spent());
        }
        (self.agent, self.advertised) = (Some(agent), advertised);
        (self.conversation, self.translator) = (conversation, translator);
        self.terminals = Terminals::new(self.folder.clone(), self.processes.clone());
        self.save_conversation().await?;
        self.introduce_agent(notices).await?;
        Ok(true)
    }

    pub(super) async fn end_agent(&mut self) {
        self.cancel_requests();
        self.cancel_session();
        if let Some(agent) = self.agent.take() {
            agent.end().await;
        }
        self.files.cancel().await;
    }

    /// Applies a new configuration between turns by restarting the agent in the same conversation. If it does not
    /// start, the old configuration stays.
    pub(super) async fn reload(
        &mut self,
        config: AgentSessionConfig,
        reply: Reply,
    ) -> Result<(), DriverExit> {
        if self.advertised.resumption == Resumption::Never {
            return Ok(reply.refuse(Refusal::not_supported("reload_config")).await?);
        }
        if self.turn.is_some() || self.compaction.is_some() || self.paused {
            return Ok(reply.refuse(Refusal::invalid("the agent is at work, or is paused")).await?);
        }
        let launch = match Launch::read(&config.adapter_options, std::env::var(options::CLAUDE).ok()) {
            Ok(launch) => launch,
            Err(why) => return Ok(reply.refuse(Refusal::invalid(why)).await?),
        };
        self.end_agent().await;
        let cancel = std::mem::replace(&mut self.cancel, launch.cancel);
        let launch = self.starter.replace_launch(launch);
        let config = std::mem::replace(&mut self.config, config);
        let why = match self.ensure_running().await {
            Ok(true) => None,
            Ok(false) => Some(GIVEN_UP.to_owned()),
            Err(DriverExit::Failed(AdapterError::Agent(why))) => Some(why),
            Err(other) => return Err(other),
        };
        if let Some(why) = why {
            (self.cancel, self.config) = (cancel, config);
            self.starter.replace_launch(launch);
            return Ok(reply.refuse(Refusal::invalid(why)).await?);
        }
        // A prompt with the new instructions follows if the old ones were given in a prompt.
        if self.conversation.introduced && config.composed_system_prompt != self.config.composed_system_prompt
        {
            self.introduction = instructions(&self.config, &self.advertised).into_iter().collect();
        }
        Ok(reply.done().await?)
    }
}
