//! A new process in the same conversation: after the agent was killed or ended, and for a new configuration.

use pilothouse_wire::command::AgentSessionConfig;

use super::agents::TakingUp;
use super::driver::{Break, Driver};
use super::introduction::{instructions, introduction};
use super::options::{self, Launch};
use super::start::{Started, while_commands_wait};
use super::terminals::Terminals;
use crate::adapter::{AdapterError, Refusal, Reply};

impl Driver {
    /// Starts the agent where it is not running: in its conversation, or in a new one with a notice where it cannot take that
    /// up. Commands that come meanwhile are carried out afterwards.
    pub(super) async fn ensure_running(&mut self) -> Result<(), Break> {
        if self.agent.is_some() {
            return Ok(());
        }
        let earlier = Some(self.conversation.clone());
        let starting = self.starter.start(&self.config, earlier);
        let started = while_commands_wait(&mut self.commands, &mut self.aside, starting).await;
        let started = started.ok_or(Break::Over)?.map_err(Break::agent)?;
        let Started { agent, advertised, conversation, translator, notices } = started;
        if !conversation.introduced {
            self.introduction = introduction(&self.config, &advertised);
        }
        (self.agent, self.advertised) = (Some(agent), advertised);
        (self.conversation, self.translator) = (conversation, translator);
        self.terminals = Terminals::new(self.folder.clone(), self.processes.clone());
        self.keep()?;
        self.introduce_agent(notices).await
    }

    /// Ends the agent, where it is running.
    pub(super) async fn end_agent(&mut self) {
        self.requests.cancel_all();
        self.cancel_session();
        if let Some(agent) = self.agent.take() {
            agent.end().await;
        }
    }

    /// Takes a new configuration, between turns: the agent is started again with it, in the same conversation. One that cannot
    /// be started so goes on with the old configuration.
    pub(super) async fn reload(&mut self, config: AgentSessionConfig, reply: Reply) -> Result<(), Break> {
        if self.advertised.taking_up == TakingUp::Never {
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
        match self.ensure_running().await {
            Ok(()) => {}
            Err(Break::Failed(AdapterError::Agent(why))) => {
                (self.cancel, self.config) = (cancel, config);
                self.starter.replace_launch(launch);
                return Ok(reply.refuse(Refusal::invalid(why)).await?);
            }
            Err(other) => return Err(other),
        }
        // An agent that was told the old instructions in words is told the new ones in words.
        if self.conversation.introduced && config.composed_system_prompt != self.config.composed_system_prompt
        {
            self.introduction = instructions(&self.config, &self.advertised).into_iter().collect();
        }
        Ok(reply.done().await?)
    }
}
