//! `EnterPlanMode`: the agent plans (S0 8.3 `RecordPlanCreatedCommand`).

use pilothouse_domain::session::AgentFact;

/// The plan's document is shown later.
pub(super) const fn fact() -> AgentFact {
    AgentFact::PlanModeEntered
}
