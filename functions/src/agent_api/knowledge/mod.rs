//! Knowledge of a project in the agent API (S2, "Security boundaries"; decision 84).

pub(super) mod audit;
pub(super) mod caller;
pub mod decision;
pub mod flag;
pub mod search;
