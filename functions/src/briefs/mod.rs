//! The brief of an agent as input, for the functions that take it and the one that describes it (S2 `AgentBrief`).

mod guardrails;
pub(crate) mod input;
