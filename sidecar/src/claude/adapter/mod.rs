//! The `claude` adapter: drives the Claude Code binary on its stream-json stdio.
//!
//! | module | what it does |
//! |---|---|
//! | [`binary`], [`arguments`], [`environment`], [`servers`], [`prompt`], [`options`] | what is started, and with what |
//! | [`process`] | the running binary: lines in, lines out |
//! | [`channel`] | control requests and their answers |
//! | [`gate`] | the hooks by which it asks before it goes on: pause and interrupt |
//! | [`permissions`] | what it needs its owner for |
//! | [`messages`] | messages on their way to it |
//! | [`conversation`], [`account`] | what is remembered over runs |
//! | [`driver`], [`commands`], [`lines`], [`lifecycle`], [`renewal`], [`turn_end`] | all of it together |

mod account;
mod arguments;
mod binary;
mod channel;
mod commands;
mod conversation;
mod driver;
mod environment;
mod gate;
mod lifecycle;
mod lines;
mod messages;
mod options;
mod permissions;
mod process;
mod prompt;
mod renewal;
mod servers;
#[cfg(test)]
mod tests;
mod turn_end;

use async_trait::async_trait;
use pilothouse_domain::value::Capabilities;

use crate::adapter::{Adapter, AdapterError, AgentContext};

/// The adapter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Claude;

impl Claude {
    /// The name that sessions ask for it by.
    pub const NAME: &'static str = "claude";
}

#[async_trait]
impl Adapter for Claude {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            steer_mid_turn: true,
            pause: true,
            resume_conversation: true,
            hot_reload: true,
            cost: true,
            context_usage: true,
            approvals: true,
            questions: true,
            plans: true,
            subagents: true,
            model_switch: true,
            thinking_levels: true,
            compaction: true,
            // The binary forks a conversation only as a whole, and compares with its budget after the call that passed it.
            fork: false,
            budget_before_call: false,
        }
    }

    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError> {
        driver::drive(context).await
    }
}
