//! The `claude` adapter: drives the Claude Code binary through its stream-json protocol on standard input and output.
//!
//! | module | purpose |
//! |---|---|
//! | [`binary`], [`arguments`], [`environment`], [`servers`], [`prompt`], [`options`] | how the process is configured |
//! | [`start`], [`initialization`] | its start and initialization, while commands take effect |
//! | [`process`] | the running process: lines in, lines out |
//! | [`control_channel`] | control requests and responses |
//! | [`tool_hooks`] | the hooks with which Claude Code asks before it proceeds: pause and interrupt |
//! | [`permissions`], [`request`] | requests to the owner |
//! | [`verdicts`], [`authorization`] | verdicts of the control plane on tool calls |
//! | [`spending`], [`unmetered`] | the run's allowance |
//! | [`messages`], [`message_sender`] | messages to the agent |
//! | [`conversation`] | state across runs |
//! | [`driver`], [`commands`], [`output_handler`], [`lifecycle`], [`new_conversation`], [`turn_end`] | the driver, which connects all of it |

mod arguments;
mod authorization;
mod binary;
mod commands;
mod control_channel;
mod conversation;
mod driver;
mod environment;
mod initialization;
mod lifecycle;
mod message_sender;
mod messages;
mod new_conversation;
mod options;
mod output_handler;
mod permissions;
mod process;
mod prompt;
mod request;
mod servers;
mod spending;
mod start;
#[cfg(test)]
mod tests;
mod tool_hooks;
mod turn_end;
mod unmetered;
mod verdicts;

use async_trait::async_trait;
use pilothouse_domain::value::Capabilities;

use crate::adapter::{Adapter, AdapterError, AgentContext};

#[derive(Debug, Clone, Copy, Default)]
pub struct Claude;

impl Claude {
    /// Adapter name, as sessions refer to it.
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
            // Claude Code only forks whole conversations, and reports no price before a call.
            fork: false,
            conversations: false,
            budget_before_call: false,
            allowance: true,
            unmetered: false,
        }
    }

    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError> {
        Box::pin(driver::drive(context)).await
    }
}
