//! The `acp` adapter: drives any agent that speaks the Agent Client Protocol on its standard input and output.
//!
//! | module | what it does |
//! |---|---|
//! | [`agents`] | what is known of each agent, in one table |
//! | [`options`] | which agent is started, from `adapterOptions` |
//! | [`process`], [`environment`] | the agent's process: chosen environment, log, pause, certain end |
//! | [`connection`] | JSON-RPC over its pipes, in the order in which things were said |
//! | [`session`] | initialize, authenticate, new, resume, load |
//! | [`start`], [`restart`], [`introduction`] | a process in its conversation, as often as it takes, and what it reads first |
//! | [`begin`], [`driver`] | the task: commands in, events out |
//! | [`turns`], [`messages`], [`stopping`] | prompts, what goes into them and after them, and breaking them off |
//! | [`choices`], [`settings`], [`adjusting`], [`compaction`] | model, thinking level, mode; summaries |
//! | [`abilities`] | what can be asked of this agent |
//! | [`translator`] | `session/update` as raw events, without I/O and without a clock |
//! | [`permissions`], [`elicitation`], [`requests`] | what the agent asks its owner |
//! | [`files`], [`terminals`] | what the agent asks the sidecar to do, inside the working directory |
//!
//! `docs/adapters.md` says what it can do with which agent.

mod abilities;
mod adjusting;
mod agents;
mod begin;
mod blocks;
mod calls;
mod choices;
mod compaction;
mod connection;
mod driver;
mod elicitation;
mod environment;
mod files;
mod introduction;
mod json;
mod mcp;
mod memory;
mod messages;
mod meter;
mod options;
mod permissions;
mod process;
mod requests;
mod restart;
mod serving;
mod session;
mod settings;
mod start;
mod stopping;
mod subagents;
mod terminals;
mod translator;
mod turns;

pub(crate) use elicitation::Form;

#[cfg(test)]
mod recorded;

use async_trait::async_trait;
use pilothouse_domain::value::Capabilities;

use crate::adapter::{Adapter, AdapterError, AgentContext};

/// The adapter.
#[derive(Debug, Default)]
pub struct Acp;

impl Acp {
    /// The name that sessions ask for it by.
    pub const NAME: &'static str = "acp";
}

#[async_trait]
impl Adapter for Acp {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// What can be asked of an agent at most: told before one is started. What this one can do is told when that is known.
    fn capabilities(&self) -> Capabilities {
        abilities::AT_MOST
    }

    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError> {
        begin::drive(context).await
    }
}
