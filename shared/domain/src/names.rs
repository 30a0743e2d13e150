//! Names of enum variants in texts and stored data.
//!
//! Stored hashes and cursors contain the names. They are therefore literals: the output of `Debug` would change when a variant is
//! renamed.

/// Implements `Display` for an enum without fields.
macro_rules! named {
    ($name:ident { $($variant:ident => $text:literal,)+ }) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $text,)+
                })
            }
        }

        #[cfg(test)]
        impl $crate::names::Named for $name {
            const NAMED: &'static [(Self, &'static str)] = &[$((Self::$variant, $text),)+];
        }
    };
}
pub(crate) use named;

/// The names of all variants, for tests.
#[cfg(test)]
pub(crate) trait Named: Sized + 'static {
    const NAMED: &'static [(Self, &'static str)];
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::Named;

    /// Checks that each variant has the same name in `Display` and in JSON.
    fn is_that_of_json<T: Named + Serialize + std::fmt::Display>() {
        for (variant, name) in T::NAMED {
            assert_eq!(serde_json::to_value(variant).unwrap(), *name);
            assert_eq!(variant.to_string(), *name);
        }
    }

    fn names_of<T: Named>() -> Vec<&'static str> {
        T::NAMED.iter().map(|(_, name)| *name).collect()
    }

    #[test]
    fn failures_and_activity_have_the_names_of_the_specification() {
        assert_eq!(
            names_of::<crate::value::FailureReason>(),
            [
                "BudgetExhausted",
                "VerificationFailed",
                "AgentError",
                "ManualCancellation",
                "Timeout",
                "InfrastructureError",
            ]
        );
        assert_eq!(
            names_of::<crate::value::ActivityItemType>(),
            [
                "Message",
                "ToolCallStart",
                "ToolCallEnd",
                "SubAgentSpawn",
                "SubAgentComplete",
                "PlanModeEnter",
                "PlanModeExit",
                "UserQuestion",
                "UserAnswer",
                "TodoUpdate",
                "StatusChange",
                "MetricsUpdate",
                "SkillEnabled",
                "HandoffInitiated",
                "Notice",
            ]
        );
    }

    #[test]
    fn names_are_those_of_json() {
        is_that_of_json::<crate::agent_api::AgentTaskPriority>();
        is_that_of_json::<crate::agent_api::LearningKind>();
        is_that_of_json::<crate::artifact::ArtifactKind>();
        is_that_of_json::<crate::artifact::ArtifactState>();
        is_that_of_json::<crate::artifact::ArtifactStatus>();
        is_that_of_json::<crate::brake::BrakeBehavior>();
        is_that_of_json::<crate::brake::HoldStage>();
        is_that_of_json::<crate::chain::SessionChainStatus>();
        is_that_of_json::<crate::coherence::CoherenceState>();
        is_that_of_json::<crate::coherence::CoherenceTrend>();
        is_that_of_json::<crate::coherence::StructuralCheck>();
        is_that_of_json::<crate::decision::DecisionKind>();
        is_that_of_json::<crate::decision::DecisionStatus>();
        is_that_of_json::<crate::decision::ResolutionType>();
        is_that_of_json::<crate::effect::ActionKind>();
        is_that_of_json::<crate::effect::BlastRadius>();
        is_that_of_json::<crate::effect::Severity>();
        is_that_of_json::<crate::control_mode::ControlMode>();
        is_that_of_json::<crate::escalation::GuardrailLevel>();
        is_that_of_json::<crate::escalation::TripSubject>();
        is_that_of_json::<crate::journal::RepairRule>();
        is_that_of_json::<crate::coherence::CoherenceCategory>();
        is_that_of_json::<crate::project::AgentStatus>();
        is_that_of_json::<crate::project_agent::SandboxCapability>();
        is_that_of_json::<crate::project_agent::SecretScope>();
        is_that_of_json::<crate::routing::AgentEventType>();
        is_that_of_json::<crate::routing::Workspace>();
        is_that_of_json::<crate::session::AgentSessionStatus>();
        is_that_of_json::<crate::session::LifecycleCommand>();
        is_that_of_json::<crate::session::RunCause>();
        is_that_of_json::<crate::skill::MemoryPillCategory>();
        is_that_of_json::<crate::skill::MemoryPillStatus>();
        is_that_of_json::<crate::tick::TickMode>();
        is_that_of_json::<crate::trust::TrustOutcome>();
        is_that_of_json::<crate::trust::TrustProfileName>();
        is_that_of_json::<crate::value::ActivityItemType>();
        is_that_of_json::<crate::value::FailureReason>();
        is_that_of_json::<crate::value::MessagePriority>();
        is_that_of_json::<crate::value::MessageSource>();
        is_that_of_json::<crate::value::ValidationType>();
    }
}
