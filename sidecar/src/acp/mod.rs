//! The `acp` adapter: drives any agent that implements the Agent Client Protocol on its standard input and output.
//!
//! | module | purpose |
//! |---|---|
//! | [`agents`] | table of known agents and their differences |
//! | [`options`] | selects the agent from `adapterOptions` |
//! | [`environment`] | the environment of the agent's process |
//! | [`connection`] | JSON-RPC over its pipes, in message order |
//! | [`session`] | protocol methods: initialize, authenticate, new, resume, load |
//! | [`start`], [`restart`], [`introduction`] | starts a process in its conversation, restarts it, and composes its first prompt |
//! | [`begin`], [`driver`] | the driver: commands in, events out |
//! | [`work`], [`turns`], [`stopping`] | turns, pause and interrupt |
//! | [`waiting`], [`messages`], [`prompt`] | messages to the agent, and their content |
//! | [`setting_change`], [`settings`], [`adjust`], [`compaction`] | model, thinking level, mode; compaction |
//! | [`meter`], [`spending`], [`limit`] | the conversation's cost, and the run's allowance |
//! | [`capabilities`] | the agent's capabilities |
//! | [`translator`], [`announcements`] | translate `session/update` to raw events, without I/O and without a clock |
//! | [`permissions`], [`requests`], [`responses`] | requests of the agent to its owner |
//! | [`verdicts`], [`governed`], [`gated_call`] | requests that need a verdict of the control plane |
//! | [`delegation`] | subagents that the brief does not allow |
//! | [`files`], [`file_requests`], [`terminals`] | file and command requests of the agent, limited to the working directory |
//!
//! `docs/adapters.md` lists what the adapter supports with which agent.

mod adjust;
mod agents;
mod announcements;
mod begin;
mod blocks;
mod calls;
mod capabilities;
mod client_requests;
mod compaction;
mod connection;
mod conversation_file;
mod delegation;
mod driver;
mod environment;
mod file_requests;
mod files;
mod gated_call;
mod governed;
mod introduction;
mod limit;
mod mcp;
mod messages;
mod meter;
mod options;
mod permissions;
mod prompt;
mod requests;
mod responses;
mod restart;
mod session;
mod setting_change;
mod settings;
mod spending;
mod start;
mod stopping;
mod subagents;
mod terminals;
mod translator;
mod turns;
mod verdicts;
mod waiting;
mod work;

#[cfg(test)]
mod recorded;

use async_trait::async_trait;
use pilothouse_domain::value::Capabilities;

use crate::adapter::{Adapter, AdapterError, AgentContext};

#[derive(Debug, Default)]
pub struct Acp;

impl Acp {
    /// Adapter name, as sessions refer to it.
    pub const NAME: &'static str = "acp";
}

#[async_trait]
impl Adapter for Acp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// The upper bound, published before an agent is started. The exact capabilities are published once they are
    /// known.
    fn capabilities(&self) -> Capabilities {
        capabilities::MAXIMUM
    }

    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError> {
        Box::pin(begin::drive(context)).await
    }
}
