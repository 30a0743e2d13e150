//! The conditions under which an agent receives injections (S2 `ContextInjectionPolicy`).

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::coherence::CoherenceCategory;
use crate::control_mode::ControlMode;
use crate::effect::Severity;
use crate::names::named;
use crate::text::{AgentRole, ArtifactName, WorkstreamId};

/// An event in a readable workstream that causes an injection of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReactiveEvent {
    ArtifactApproved,
    /// An artifact has a new version.
    ArtifactChanged,
    DecisionResolved,
    /// A brake that stopped the agent was released.
    BrakeReleased,
    /// A coherence issue of at least `coherenceSeverity` concerns a readable workstream.
    CoherenceIssue,
    /// Another agent completed its work.
    AgentCompleted,
}

named!(ReactiveEvent {
    ArtifactApproved => "artifact_approved",
    ArtifactChanged => "artifact_changed",
    DecisionResolved => "decision_resolved",
    BrakeReleased => "brake_released",
    CoherenceIssue => "coherence_issue",
    AgentCompleted => "agent_completed",
});

/// The priority of an injection, the most important first (S2 `ContextInjection.priority`). Limits drop only those that are not required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InjectionPriority {
    /// Exempt from the limits of the policy.
    Required,
    Recommended,
    Supplementary,
}

named!(InjectionPriority {
    Required => "required",
    Recommended => "recommended",
    Supplementary => "supplementary",
});

/// The reason of an injection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum InjectionReason {
    /// The brief of the agent, or that of its project.
    BriefChanged {},
    BrakeReleased {},
    ArtifactApproved {
        name: ArtifactName,
        version: u32,
        workstream: WorkstreamId,
    },
    ArtifactChanged {
        name: ArtifactName,
        version: u32,
        workstream: WorkstreamId,
    },
    DecisionResolved {
        workstream: WorkstreamId,
    },
    CoherenceIssue {
        severity: Severity,
        category: CoherenceCategory,
        workstream: WorkstreamId,
    },
    AgentCompleted {
        role: AgentRole,
        workstream: WorkstreamId,
    },
    /// Many events followed the latest injection.
    Stale {},
    Periodic {},
}

impl InjectionReason {
    pub const fn priority(&self) -> InjectionPriority {
        match self {
            Self::BriefChanged {} => InjectionPriority::Required,
            Self::BrakeReleased {}
            | Self::ArtifactApproved { .. }
            | Self::DecisionResolved { .. }
            | Self::CoherenceIssue { .. } => InjectionPriority::Recommended,
            Self::ArtifactChanged { .. }
            | Self::AgentCompleted { .. }
            | Self::Stale {}
            | Self::Periodic {} => InjectionPriority::Supplementary,
        }
    }

    /// The event that a policy has to list; `None` if the reason does not depend on a list.
    pub const fn event(&self) -> Option<ReactiveEvent> {
        match self {
            Self::BrakeReleased {} => Some(ReactiveEvent::BrakeReleased),
            Self::ArtifactApproved { .. } => Some(ReactiveEvent::ArtifactApproved),
            Self::ArtifactChanged { .. } => Some(ReactiveEvent::ArtifactChanged),
            Self::DecisionResolved { .. } => Some(ReactiveEvent::DecisionResolved),
            Self::CoherenceIssue { .. } => Some(ReactiveEvent::CoherenceIssue),
            Self::AgentCompleted { .. } => Some(ReactiveEvent::AgentCompleted),
            Self::BriefChanged {} | Self::Stale {} | Self::Periodic {} => None,
        }
    }
}

impl std::fmt::Display for InjectionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BriefChanged {} => f.write_str("Your brief or the brief of your project changed."),
            Self::BrakeReleased {} => f.write_str("An emergency brake that stopped you was released."),
            Self::ArtifactApproved { name, version, workstream } => {
                write!(
                    f,
                    "The artifact \"{name}\", version {version}, of the workstream {workstream} was approved."
                )
            }
            Self::ArtifactChanged { name, version, workstream } => {
                write!(
                    f,
                    "The artifact \"{name}\" of the workstream {workstream} has the new version {version}."
                )
            }
            Self::DecisionResolved { workstream } => {
                write!(f, "A person made a decision about the workstream {workstream}.")
            }
            // Without the title, which may name artifacts that the agent may not read.
            Self::CoherenceIssue { severity, category, workstream } => {
                write!(f, "A coherence issue ({severity}, {category}) concerns the workstream {workstream}.")
            }
            Self::AgentCompleted { role, workstream } => {
                write!(f, "The agent \"{role}\" of the workstream {workstream} completed its work.")
            }
            Self::Stale {} => f.write_str("Much happened in your project since the last update."),
            Self::Periodic {} => f.write_str("This is a regular update."),
        }
    }
}

/// The conditions under which an agent receives injections. S2 counts ticks here; this policy counts minutes (decision 89).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ContextInjectionPolicy {
    /// Minutes between two complete updates of a working agent; `null` for none.
    pub periodic_interval_minutes: Option<u32>,
    /// Events that cause an injection of the changes.
    pub reactive_events: BTreeSet<ReactiveEvent>,
    /// The lowest severity of coherence issues that cause an injection, if `coherence_issue` is listed.
    pub coherence_severity: Severity,
    /// The number of entries in readable journals of other agents that causes a complete update; `null` for none.
    pub staleness_threshold: Option<u32>,
    /// Most injections in an hour. Required ones are exempt.
    pub max_injections_per_hour: u32,
    /// Least minutes between two injections, unless the second one is required.
    pub cooldown_minutes: u32,
}

impl Default for ContextInjectionPolicy {
    fn default() -> Self {
        Self::of_mode(ControlMode::default())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyViolation {
    #[error("periodicIntervalMinutes must be from 1 to {}", ContextInjectionPolicy::MAX_MINUTES)]
    Interval,
    #[error("stalenessThreshold must be from 1 to {}", ContextInjectionPolicy::MAX_STALENESS)]
    Staleness,
    #[error("maxInjectionsPerHour must be at most {}", ContextInjectionPolicy::MAX_PER_HOUR)]
    PerHour,
    #[error("cooldownMinutes must be at most {}", ContextInjectionPolicy::MAX_MINUTES)]
    Cooldown,
}

impl ContextInjectionPolicy {
    /// A day.
    pub const MAX_MINUTES: u32 = 24 * 60;
    pub const MAX_STALENESS: u32 = 10_000;
    pub const MAX_PER_HOUR: u32 = 60;
    /// S2.
    pub const DEFAULT_PER_HOUR: u32 = 12;
    /// S2.
    pub const DEFAULT_COOLDOWN: u32 = 5;

    /// S2, "Default policy per control mode".
    pub fn of_mode(mode: ControlMode) -> Self {
        use ReactiveEvent as E;
        let (minutes, staleness, severity, events) = match mode {
            ControlMode::Orchestrator => (
                10,
                5,
                Severity::High,
                vec![
                    E::ArtifactApproved,
                    E::ArtifactChanged,
                    E::DecisionResolved,
                    E::BrakeReleased,
                    E::CoherenceIssue,
                ],
            ),
            ControlMode::Adaptive => {
                (20, 10, Severity::High, vec![E::ArtifactApproved, E::DecisionResolved, E::BrakeReleased])
            }
            ControlMode::Ecosystem => (50, 20, Severity::Critical, vec![E::BrakeReleased, E::CoherenceIssue]),
        };
        Self {
            periodic_interval_minutes: Some(minutes),
            reactive_events: events.into_iter().collect(),
            coherence_severity: severity,
            staleness_threshold: Some(staleness),
            max_injections_per_hour: Self::DEFAULT_PER_HOUR,
            cooldown_minutes: Self::DEFAULT_COOLDOWN,
        }
    }

    /// Names every violation.
    pub fn check(&self) -> Result<(), Vec<PolicyViolation>> {
        let within = |value: Option<u32>, max| value.is_none_or(|value| (1..=max).contains(&value));
        let checks = [
            (within(self.periodic_interval_minutes, Self::MAX_MINUTES), PolicyViolation::Interval),
            (within(self.staleness_threshold, Self::MAX_STALENESS), PolicyViolation::Staleness),
            (self.max_injections_per_hour <= Self::MAX_PER_HOUR, PolicyViolation::PerHour),
            (self.cooldown_minutes <= Self::MAX_MINUTES, PolicyViolation::Cooldown),
        ];
        let found: Vec<_> = checks.into_iter().filter(|(holds, _)| !holds).map(|(_, it)| it).collect();
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Whether an agent with this policy receives knowledge for `reason`. A changed brief always reaches its agent.
    pub fn includes(&self, reason: &InjectionReason) -> bool {
        let is_severe = match reason {
            InjectionReason::CoherenceIssue { severity, .. } => *severity >= self.coherence_severity,
            _ => true,
        };
        is_severe && reason.event().is_none_or(|event| self.reactive_events.contains(&event))
    }

    pub const fn cooldown(&self) -> Duration {
        minutes(self.cooldown_minutes)
    }

    pub fn periodic_interval(&self) -> Option<Duration> {
        self.periodic_interval_minutes.map(minutes)
    }

    /// How often a working agent is checked; `None` if its policy is only reactive.
    pub fn check_interval(&self) -> Option<Duration> {
        let staleness = self.staleness_threshold.map(|_| minutes(self.cooldown_minutes.max(1)));
        self.periodic_interval().into_iter().chain(staleness).min()
    }
}

const fn minutes(count: u32) -> Duration {
    Duration::from_mins(count as u64)
}
