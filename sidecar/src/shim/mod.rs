//! The `shim` adapter: drives a local program that serves S2's wire protocol for an agent of any SDK
//! (`pilothouse_shim`).
//!
//! | module | purpose |
//! |---|---|
//! | [`options`] | the program of the shim, from `adapterOptions` |
//! | [`brief`] | the brief that the agent receives |
//! | [`start`] | starts the program, and waits until it is ready |
//! | [`begin`], [`driver`] | the driver: commands in, events out |
//! | [`turn`], [`turns`], [`stopping`] | turns, pause and interrupt |
//! | [`events`], [`translator`] | the order of events, and their translation to raw events |
//! | [`open_decisions`], [`decisions`] | tool approvals and options |
//! | [`saved_state`] | states of the agent, from which a later run continues |
//! | [`meter`] | the cost of the agent, from its reports |
//!
//! `docs/adapters.md` describes the behaviour, and `docs/writing-a-shim.md` the protocol.

mod begin;
mod brief;
mod decisions;
mod driver;
mod events;
mod meter;
mod open_decisions;
mod options;
mod saved_state;
mod start;
mod stopping;
mod translator;
mod turn;
mod turns;

use async_trait::async_trait;
use pilothouse_domain::value::Capabilities;

use crate::adapter::{Adapter, AdapterError, AgentContext};

#[derive(Debug, Default)]
pub struct Shim;

impl Shim {
    /// Adapter name, as sessions refer to it.
    pub const NAME: &'static str = "shim";

    /// The upper bound, published before a shim is started.
    const MAXIMUM: Capabilities = Capabilities {
        steer_mid_turn: true,
        pause: true,
        resume_conversation: true,
        hot_reload: true,
        cost: true,
        context_usage: false,
        approvals: true,
        questions: true,
        plans: false,
        subagents: true,
        model_switch: false,
        thinking_levels: false,
        compaction: false,
        fork: false,
        conversations: false,
        budget_before_call: false,
        allowance: true,
        unmetered: false,
    };
}

#[async_trait]
impl Adapter for Shim {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Self::MAXIMUM
    }

    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError> {
        Box::pin(begin::drive(context)).await
    }
}
