//! The `script` adapter: plays a script, a recording, or a short demo, and can inject failures. For tests, demos and
//! replays. `docs/script-format.md` describes the format.

mod adjust;
mod control;
mod demo;
pub mod format;
mod meters;
mod player;
mod profile;
mod program;
mod source;
mod state;

use async_trait::async_trait;
use pilothouse_domain::value::Capabilities;
use schemars::generate::SchemaSettings;

use crate::adapter::{Adapter, AdapterError, AgentContext};
use crate::faults::Faults;

#[derive(Debug, Default)]
pub struct Script {
    faults: Faults,
    governed: bool,
}

impl Script {
    /// Adapter name, as sessions refer to it.
    pub const NAME: &'static str = "script";

    /// `faults` are those of the sidecar. `governed`: the control plane authorizes tool calls.
    pub const fn new(faults: Faults, governed: bool) -> Self {
        Self { faults, governed }
    }
}

/// The JSON Schema of scripts, exported to `docs/wire/script.schema.json`.
pub fn schema() -> schemars::Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<format::ScriptFile>()
}

#[async_trait]
impl Adapter for Script {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        maximum(self.governed)
    }

    async fn run(self: Box<Self>, context: AgentContext) -> Result<(), AdapterError> {
        player::play(context, self.faults).await
    }
}

/// The capabilities of an agent without a profile. `governed`: the control plane authorizes tool calls.
const fn maximum(governed: bool) -> Capabilities {
    Capabilities {
        steer_mid_turn: true,
        pause: true,
        resume_conversation: true,
        hot_reload: true,
        cost: true,
        context_usage: true,
        approvals: governed,
        questions: true,
        plans: true,
        subagents: true,
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

#[cfg(test)]
mod tests;
