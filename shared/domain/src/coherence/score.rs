//! The score of a project and its trend (S2, "Coherence score computation").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::effect::Severity;
use crate::names::named;
use crate::tick::Tick;

/// The part of an issue that counts for the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoredIssue {
    pub severity: Severity,
    pub detected: Tick,
    /// `None` while it is open or confirmed.
    pub ended: Option<Tick>,
}

/// Points of a project: 100 without issues, and 0 at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CoherenceScore(u32);

/// The direction in which the score changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoherenceTrend {
    Improving,
    Stable,
    Declining,
}

named!(CoherenceTrend {
    Improving => "improving",
    Stable => "stable",
    Declining => "declining",
});

/// The number of open and confirmed issues of each severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenIssues {
    pub critical: u32,
    pub high: u32,
    pub medium: u32,
    pub low: u32,
    pub warning: u32,
}

impl CoherenceScore {
    pub const MAX: u32 = 100;
    /// The trend compares with the score of so many ticks ago.
    pub const TREND_TICKS: u64 = 10;

    pub const fn points(self) -> u32 {
        self.0
    }

    const fn penalty(severity: Severity) -> u32 {
        match severity {
            Severity::Critical => 15,
            Severity::High => 8,
            Severity::Medium => 3,
            Severity::Low => 1,
            // S2 gives no penalty for it.
            Severity::Warning => 0,
        }
    }

    fn of_penalties(issues: impl Iterator<Item = ScoredIssue>) -> Self {
        let sum = issues.fold(0u32, |sum, issue| sum.saturating_add(Self::penalty(issue.severity)));
        Self(Self::MAX.saturating_sub(sum))
    }

    /// The score now: of all issues that have not ended.
    pub fn now(issues: &[ScoredIssue]) -> Self {
        Self::of_penalties(issues.iter().copied().filter(|issue| issue.ended.is_none()))
    }

    /// The score some ticks before `tick`. A project has 100 points before its first tick.
    pub fn before(issues: &[ScoredIssue], tick: Tick) -> Self {
        let Some(then) = tick.get().checked_sub(Self::TREND_TICKS).map(Tick::new) else {
            return Self(Self::MAX);
        };
        let was_open = |it: &ScoredIssue| it.detected <= then && it.ended.is_none_or(|ended| ended > then);
        Self::of_penalties(issues.iter().copied().filter(was_open))
    }
}

impl CoherenceTrend {
    pub fn between(before: CoherenceScore, now: CoherenceScore) -> Self {
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => Self::Improving,
            std::cmp::Ordering::Equal => Self::Stable,
            std::cmp::Ordering::Less => Self::Declining,
        }
    }
}

impl OpenIssues {
    pub fn count(issues: &[ScoredIssue]) -> Self {
        let mut counts = Self::default();
        for issue in issues.iter().filter(|issue| issue.ended.is_none()) {
            *match issue.severity {
                Severity::Critical => &mut counts.critical,
                Severity::High => &mut counts.high,
                Severity::Medium => &mut counts.medium,
                Severity::Low => &mut counts.low,
                Severity::Warning => &mut counts.warning,
            } += 1;
        }
        counts
    }
}
