//! The `native` adapter: drives Pilothouse's own agent, the crate `pilothouse-agent`, within the sidecar's process
//! (`docs/adapters.md`).
//!
//! The [`driver`] makes all decisions. The agent asks it before each model call and each tool ([`governor`]); its
//! answers implement pauses, budgets and messages. The driver publishes the agent's earlier events before it answers,
//! so that the agent never acts on unpublished events.
//!
//! | module | purpose |
//! |---|---|
//! | [`driver`], [`turns`] | the conversation and its turns |
//! | [`approvals`], [`event_handler`] | the agent's requests to proceed, and its events |
//! | [`authorization`] | permission for tool calls in a project |
//! | [`commands`], [`adjust`], [`conversations`] | commands of the control plane |
//! | [`owner_commands`] | commands of the owner during a turn |
//! | [`messages`] | messages: held, given, refused |
//! | [`elicit`] | questions of MCP servers to the owner |
//! | [`governor`] | the agent's side of the requests to proceed, and the wrapper of each tool |
//! | [`emit`], [`usage`], [`logs`] | translate the agent's events to raw events |
//! | [`setup`], [`options`], [`prompt`], [`toolbox`], [`allowed`], [`servers`] | assemble the agent |
//! | [`saved_state`] | state that outlives a run, besides the conversation |
//! | [`handoff`] | the document of a turn that hands the work over |

mod additions;
mod adjust;
mod allowance;
mod allowed;
mod approvals;
mod authorization;
mod commands;
mod conversations;
mod driver;
mod elicit;
mod emit;
mod event_handler;
mod governor;
mod logs;
mod messages;
mod options;
mod owner_commands;
mod prompt;
mod saved_state;
mod setup;
mod toolbox;
mod turns;
mod usage;

use async_trait::async_trait;
use pilothouse_agent::model::genai::Connections;
use pilothouse_domain::value::Capabilities;

use crate::adapter::{Adapter, AdapterError, AgentCommand, AgentContext, Refusal};

#[derive(Debug, Default)]
pub struct Native {
    governed: bool,
}

impl Native {
    /// Adapter name, as sessions refer to it.
    pub const NAME: &'static str = "native";

    /// `governed`: the control plane authorizes tool calls.
    pub const fn new(governed: bool) -> Self {
        Self { governed }
    }
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
            approvals: self.governed,
            questions: true,
            plans: true,
            subagents: false,
            model_switch: true,
            thinking_levels: true,
            compaction: true,
            fork: true,
            conversations: true,
            budget_before_call: true,
            allowance: true,
            unmetered: false,
        }
    }

    async fn run(self: Box<Self>, mut context: AgentContext) -> Result<(), AdapterError> {
        // Connects while the sidecar waits for `begin` and reads the earlier conversation.
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
