//! The `acp` adapter: drives any agent that speaks the Agent Client Protocol on its standard input and output.
//!
//! | module | what it does |
//! |---|---|
//! | [`agents`] | what is known of each agent, in one table |
//! | [`options`] | which agent is started, from `adapterOptions` |
//! | [`process`], [`environment`] | the agent's process: chosen environment, log, pause, certain end |
//! | [`connection`] | JSON-RPC over its pipes, in the order in which things were said |
//! | [`session`] | initialize, authenticate, new, resume, load, modes and models |
//! | [`driver`] | the task: commands in, events out |
//! | [`translator`] | `session/update` as raw events, without I/O and without a clock |
//! | [`permissions`], [`elicitation`], [`requests`] | what the agent asks its owner |
//! | [`files`], [`terminals`] | what the agent asks the sidecar to do, inside the working directory |
//!
//! `docs/adapters.md` says what it can do with which agent.

mod agents;
mod blocks;
mod calls;
mod connection;
mod driver;
mod elicitation;
mod environment;
mod files;
mod json;
mod mcp;
mod memory;
mod messages;
mod meter;
mod options;
mod permissions;
mod process;
mod requests;
mod serving;
mod session;
mod settings;
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

    /// What the protocol offers. Told before any agent is started, so it cannot depend on the agent; what this agent offers
    /// of it is told by the notice `agent_connected`, and what it does not is refused by name.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Only by a vendor's extension, and nobody knows yet whether the agent has one.
            steer_mid_turn: false,
            pause: true,
            resume_conversation: true,
            cost: true,
            context_usage: true,
            approvals: true,
            questions: true,
            plans: true,
            subagents: true,
            model_switch: true,
            thinking_levels: true,
            ..Capabilities::default()
        }
    }

    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError> {
        driver::drive(context).await
    }
}
