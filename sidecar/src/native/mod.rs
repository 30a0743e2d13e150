//! The `native` adapter: drives Pilothouse's own agent, the crate `pilothouse-agent`, in the sidecar's own process
//! (`docs/adapters.md`).
//!
//! The [`driver`] is the only one who decides. The agent asks it before each model call and each tool ([`gate`]), so that
//! a pause holds, a budget counts and a message comes in exactly there; and what the agent tells is told on before it goes
//! on, so that nothing happens that was not told.
//!
//! | module | what it is |
//! |---|---|
//! | [`driver`], [`turns`] | the conversation, and its turns |
//! | [`asks`], [`did`] | what the agent asks before it goes on, and what it did |
//! | [`commands`], [`adjust`] | what is asked of it |
//! | [`messages`] | messages: held, given, refused |
//! | [`elicit`] | what MCP servers ask the owner |
//! | [`gate`] | the agent's questions to the driver: a governor, and a coat around each tool |
//! | [`tell`], [`usage`], [`logs`] | from the agent's events to raw events |
//! | [`setup`], [`models`], [`options`], [`prompt`], [`toolbox`], [`servers`] | what the agent is made of |
//! | [`memory`] | what outlives a run beside the conversation itself |
//! | [`output`], [`handoff`] | what a turn leaves |

mod additions;
mod adjust;
mod allowance;
mod asks;
mod commands;
mod did;
mod driver;
mod elicit;
mod gate;
mod logs;
mod memory;
mod messages;
mod models;
mod options;
mod output;
mod prompt;
mod setup;
mod tell;
mod toolbox;
mod turns;
mod usage;

use async_trait::async_trait;
use pilothouse_agent::model::genai::Connections;
use pilothouse_domain::value::Capabilities;

use crate::adapter::{Adapter, AdapterError, AgentCommand, AgentContext, Refusal};

/// The adapter.
#[derive(Debug, Default)]
pub struct Native;

impl Native {
    /// The name that sessions ask for it by.
    pub const NAME: &'static str = "native";
}

#[async_trait]
impl Adapter for Native {
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
            approvals: false,
            questions: true,
            plans: true,
            subagents: false,
            model_switch: true,
            thinking_levels: true,
            compaction: true,
            fork: true,
            budget_before_call: true,
        }
    }

    async fn run(self: Box<Self>, mut context: AgentContext) -> Result<(), AdapterError> {
        // Before it is begun: while the sidecar waits for that, and reads what was before.
        let connections = Connections::default();
        connections.prepare();
        let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
        match driver::Driver::open(context, *begin, connections).await {
            Ok((mut driver, opening)) => {
                reply.done().await?;
                driver.run(opening).await
            }
            Err(error) => {
                reply.refuse(Refusal::invalid(error.to_string())).await?;
                Err(error)
            }
        }
    }
}
