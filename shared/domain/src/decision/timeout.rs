//! The effect of a decision's timeout (S2 `DecisionTimeoutPolicy`; decision 70).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DecisionKind;
use crate::Timestamp;
use crate::control_mode::ControlMode;
use crate::effect::{ActionKind, BlastRadius, Effects, Severity};
use crate::names::named;
use crate::tick::{Tick, TickReading};

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

impl TimeoutOverrides {
    /// The rule that the effective policy comes from.
    const fn rule(&self, mode: ControlMode) -> TimeoutRule {
        match self {
            Self { decision: Some(_), .. } => TimeoutRule::Decision,
            Self { brief: Some(_), .. } => TimeoutRule::Brief,
            Self { project: Some(_), .. } => TimeoutRule::Project { mode },
            Self { .. } => TimeoutRule::ModeDefault { mode },
        }
    }
}

/// Where the timeout policy of a decision comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TimeoutRule {
    /// The decision.
    Decision,
    /// The brief of the agent.
    Brief,
    /// The project's policy for the mode.
    Project { mode: ControlMode },
    /// The default of the mode.
    ModeDefault { mode: ControlMode },
}

/// The policy that holds when a request opens, with the ticks at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeoutTerms {
    pub policy: DecisionTimeoutPolicy,
    pub rule: TimeoutRule,
    pub ticks: TickReading,
}

impl TimeoutTerms {
    pub fn new(mode: ControlMode, overrides: &TimeoutOverrides, ticks: TickReading) -> Self {
        let policy = DecisionTimeoutPolicy::effective(mode, overrides);
        Self { policy, rule: overrides.rule(mode), ticks }
    }

    /// The timeout of a request that opens under these terms.
    pub(crate) fn begin(&self) -> DecisionTimeout {
        DecisionTimeout {
            policy: self.policy,
            rule: self.rule,
            due_tick: self.policy.due(self.ticks.tick),
            extensions: 0,
            severity: None,
            last: None,
        }
    }
}

/// The timeout of a decision of a project (decision 77).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionTimeout {
    /// The policy that held when the decision was opened.
    pub policy: DecisionTimeoutPolicy,
    /// Where the policy comes from.
    pub rule: TimeoutRule,
    /// The tick at which the decision is due. Absent if it never is, and after a brake until the time starts again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_tick: Option<Tick>,
    /// Extensions so far.
    #[serde(default)]
    pub extensions: u32,
    /// The severity to which a timeout raised the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// What the latest timeout did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<TimedOut>,
}

/// A timeout that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimedOut {
    /// Number of the timeout of the decision, from 1.
    pub number: u32,
    pub at: Timestamp,
    pub tick: Tick,
    pub effect: TimeoutEffect,
    /// Where the policy comes from.
    pub rule: TimeoutRule,
}

/// What a timeout did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutEffect {
    /// The decision was resolved without a person.
    AutoResolved,
    /// The severity was raised.
    Escalated,
    /// The tool call or plan was rejected, or the question was answered as expired.
    Cancelled,
    /// The time started again.
    Extended,
}

named!(TimeoutEffect {
    AutoResolved => "auto_resolved",
    Escalated => "escalated",
    Cancelled => "cancelled",
    Extended => "extended",
});

impl DecisionTimeout {
    /// Records that the timeout fired at `tick`, with its effect on severity and due tick.
    pub(crate) fn fire(&mut self, action: TimeoutAction, tick: Tick, at: Timestamp) -> TimedOut {
        let effect = match action {
            TimeoutAction::AutoResolve => TimeoutEffect::AutoResolved,
            TimeoutAction::Cancel => TimeoutEffect::Cancelled,
            TimeoutAction::Escalate { severity, due } => {
                self.severity = Some(severity);
                self.due_tick = due;
                TimeoutEffect::Escalated
            }
            TimeoutAction::Extend { due } => {
                self.extensions += 1;
                self.due_tick = due;
                TimeoutEffect::Extended
            }
        };
        let number = self.last.map_or(1, |last| last.number.saturating_add(1));
        let fired = TimedOut { number, at, tick, effect, rule: self.rule };
        self.last = Some(fired);
        fired
    }
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
    /// Whether an approval of the call must give a reason, which only a person has.
    pub requires_rationale: bool,
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
    pub const DEFAULT_EXTENSIONS: u32 = 2;

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
            DecisionKind::Question
            | DecisionKind::Plan
            | DecisionKind::OutputReview
            | DecisionKind::BrakeRelease
            | DecisionKind::CrashRecovery
            | DecisionKind::HandoffFailed
            | DecisionKind::Autonomy
            | DecisionKind::CoherenceReview => false,
        };
        answerable && !self.requires_rationale && harmless(self.severity, self.blast_radius)
    }
}
