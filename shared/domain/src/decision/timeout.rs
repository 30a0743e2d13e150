//! The effect of a decision's timeout (S2 `DecisionTimeoutPolicy`; decision 70).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DecisionKind;
use crate::control_mode::ControlMode;
use crate::effect::{ActionKind, BlastRadius, Effects, Severity};
use crate::tick::Tick;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Takes the agent's recommendation, or approves the tool call.
    AutoRecommend,
    Escalate,
    Cancel,
    Extend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionTimeoutPolicy {
    /// `None`: the decision waits without limit.
    pub timeout_ticks: Option<u64>,
    pub on_timeout: OnTimeout,
    /// How often `extend` repeats before it escalates.
    #[serde(default = "DecisionTimeoutPolicy::default_extensions")]
    pub max_extensions: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTimeout {
    #[error("timeoutTicks must be from 1 to {}", DecisionTimeoutPolicy::MAX_TICKS)]
    Ticks,
    #[error("maxExtensions must be at most {}", DecisionTimeoutPolicy::MAX_EXTENSIONS)]
    Extensions,
}

/// Policies that can replace the default of the mode. The most specific one applies as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeoutOverrides {
    pub decision: Option<DecisionTimeoutPolicy>,
    pub brief: Option<DecisionTimeoutPolicy>,
    /// The project's policy for the mode.
    pub project: Option<DecisionTimeoutPolicy>,
}

/// A decision that was not resolved in time.
#[derive(Debug, Clone, Copy)]
pub struct TimedDecision<'a> {
    pub kind: DecisionKind,
    pub severity: Severity,
    pub blast_radius: BlastRadius,
    /// Effects of the call to approve.
    pub effects: Option<&'a Effects>,
    /// Whether the agent recommends one of its options.
    pub has_recommendation: bool,
    /// Extensions so far.
    pub extensions: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutAction {
    /// Resolve it with the recommendation, or approve the call. Trust does not change.
    AutoResolve,
    /// Raise its severity and put it first in the queue.
    Escalate {
        severity: Severity,
        due: Option<Tick>,
    },
    /// Cancel it; a tool call is rejected. Trust does not change.
    Cancel,
    Extend {
        due: Option<Tick>,
    },
}

impl DecisionTimeoutPolicy {
    pub const MAX_TICKS: u64 = 100_000_000;
    pub const MAX_EXTENSIONS: u32 = 100;
    const DEFAULT_EXTENSIONS: u32 = 2;

    const fn default_extensions() -> u32 {
        Self::DEFAULT_EXTENSIONS
    }

    /// **The default policy of each mode** of S2. Adaptive mode escalates.
    pub const fn of_mode(mode: ControlMode) -> Self {
        let (timeout_ticks, on_timeout) = match mode {
            ControlMode::Orchestrator => (None, OnTimeout::Escalate),
            ControlMode::Adaptive => (Some(50), OnTimeout::Escalate),
            ControlMode::Ecosystem => (Some(20), OnTimeout::AutoRecommend),
        };
        Self { timeout_ticks, on_timeout, max_extensions: Self::DEFAULT_EXTENSIONS }
    }

    /// The policy that applies: of the decision, else the brief, else the project, else the mode.
    pub fn effective(mode: ControlMode, overrides: &TimeoutOverrides) -> Self {
        let own = overrides.decision.or(overrides.brief).or(overrides.project);
        own.unwrap_or(Self::of_mode(mode))
    }

    /// Names every violation.
    pub fn check(&self) -> Result<(), Vec<InvalidTimeout>> {
        let mut found = Vec::new();
        if self.timeout_ticks.is_some_and(|ticks| !(1..=Self::MAX_TICKS).contains(&ticks)) {
            found.push(InvalidTimeout::Ticks);
        }
        if self.max_extensions > Self::MAX_EXTENSIONS {
            found.push(InvalidTimeout::Extensions);
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// When a decision that waits from `now` on is due.
    pub fn due(&self, now: Tick) -> Option<Tick> {
        self.timeout_ticks.map(|ticks| now.plus(ticks))
    }

    pub fn on_timeout(&self, decision: &TimedDecision<'_>, now: Tick) -> TimeoutAction {
        let escalate = || match decision.severity.raised() {
            Some(severity) => TimeoutAction::Escalate { severity, due: self.due(now) },
            None => TimeoutAction::Cancel,
        };
        match self.on_timeout {
            OnTimeout::AutoRecommend if decision.may_be_automatic() => TimeoutAction::AutoResolve,
            OnTimeout::Extend if decision.extensions < self.max_extensions => {
                TimeoutAction::Extend { due: self.due(now) }
            }
            OnTimeout::Cancel => TimeoutAction::Cancel,
            OnTimeout::AutoRecommend | OnTimeout::Escalate | OnTimeout::Extend => escalate(),
        }
    }
}

impl TimedDecision<'_> {
    /// Whether no person is needed. Departure from S2: a person decides on high severity, deletions, deployments and unknown effects.
    fn may_be_automatic(&self) -> bool {
        let harmless = |severity, radius| severity < Severity::High && radius != BlastRadius::Unknown;
        let answerable = match self.kind {
            DecisionKind::Option => self.has_recommendation,
            DecisionKind::ToolApproval => self.effects.is_some_and(|effects| {
                effects.iter().all(|effect| {
                    harmless(effect.severity, effect.blast_radius)
                        && !matches!(effect.action_kind, ActionKind::Delete | ActionKind::Deploy)
                })
            }),
            DecisionKind::Question | DecisionKind::Plan | DecisionKind::OutputReview => false,
        };
        answerable && harmless(self.severity, self.blast_radius)
    }
}
