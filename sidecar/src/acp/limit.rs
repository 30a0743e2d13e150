//! The spending limit of a run (decision 32).

use crate::kit::allowance::Allowance;

#[derive(Debug, Default)]
pub(super) struct Spending {
    pub(super) allowance: Allowance,
    /// Whether the agent may work although its spend is unknown.
    pub(super) allow_unmetered: bool,
    /// The agent is held because its allowance is spent.
    pub(super) held: bool,
    /// The control plane has paused the agent.
    pub(super) paused: bool,
}
