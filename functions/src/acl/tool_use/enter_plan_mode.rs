//! `EnterPlanMode`: the agent starts planning (S0 8.3 `RecordPlanCreatedCommand`).

use pilothouse_domain::session::AgentFact;

/// The document of the plan follows with `ExitPlanMode`.
pub(super) const fn fact() -> AgentFact {
    AgentFact::PlanModeEntered
}
