//! How a score changes: by an outcome, and by inactivity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Factor, JudgedAction, Points, TrustCalibrationConfig, TrustCalibrationProfile, TrustOutcome};
use crate::tick::Tick;

/// How the change of a score was calculated: `base × multiplier × riskWeight`, halved at the extremes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustRule {
    /// Change by S2's table or by the project's own.
    pub base: Points,
    /// Whether `base` is from the project's `deltaTable`.
    pub overridden: bool,
    /// Multiplier of the profile.
    pub multiplier: Factor,
    /// Weight of the action's severity.
    pub risk_weight: Factor,
    /// Whether the score was at an extreme.
    pub halved: bool,
    /// The result, before the limits of the score.
    pub delta: Points,
}

impl TrustRule {
    /// The change of `score` by `outcome`. A fraction below a thousandth of a point is dropped.
    pub fn of(
        outcome: TrustOutcome,
        action: Option<JudgedAction>,
        score: Points,
        profile: &TrustCalibrationProfile,
    ) -> Self {
        let config = &profile.config;
        let own = config.delta_table.get(&outcome).copied();
        let base = own.unwrap_or(outcome.base_delta());
        let gain = base > Points::ZERO;
        let multiplier = match (own, gain) {
            (Some(_), _) => Factor::ONE,
            (None, true) => profile.positive_delta_multiplier,
            (None, false) => profile.negative_delta_multiplier,
        };
        let risk_weight =
            action.map_or(Factor::ONE, |action| config.risk_weight(action.weighing_severity(gain)));
        let halved = score > config.diminishing_return_threshold_high
            || score < config.diminishing_return_threshold_low;
        // One division at the end: no step rounds.
        let product = i64::from(base.thousandths())
            * i64::from(multiplier.thousandths())
            * i64::from(risk_weight.thousandths());
        let delta = Points::clamped(product / if halved { 2_000_000 } else { 1_000_000 });
        Self { base, overridden: own.is_some(), multiplier, risk_weight, halved, delta }
    }

    /// The score after the change, within the limits of the configuration.
    pub fn apply(&self, score: Points, config: &TrustCalibrationConfig) -> Points {
        // `Ord::clamp` panics if the limits are crossed.
        score.plus(self.delta).min(config.ceiling_score).max(config.floor_score)
    }
}

impl std::fmt::Display for TrustRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let source = if self.overridden { "the project's table" } else { "the table" };
        write!(f, "{} by {source}", self.base)?;
        for (name, factor) in [("profile", self.multiplier), ("risk", self.risk_weight)] {
            if factor != Factor::ONE {
                write!(f, ", × {factor} ({name})")?;
            }
        }
        if self.halved {
            f.write_str(", halved at the extreme")?;
        }
        write!(f, ": {}", self.delta)
    }
}

/// A score at the tick of its last change. Later scores follow from it by decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackedScore {
    pub score: Points,
    /// Decay counts from here.
    pub as_of: Tick,
}

impl TrackedScore {
    /// The score after decay until `now`.
    ///
    /// A score above the target falls to it. A score below the target rises to the target or to `decayCeiling`, whichever is lower.
    /// Decaying in two steps gives the same score as decaying in one.
    pub fn at(self, now: Tick, config: &TrustCalibrationConfig) -> Points {
        let ticks = i64::try_from(now.since(self.as_of)).unwrap_or(i64::MAX);
        let distance = ticks.saturating_mul(config.decay_rate_per_tick.thousandths().into());
        let (score, target) = (self.score, config.decay_target_score);
        let from = i64::from(score.thousandths());
        if score > target {
            Points::clamped(from.saturating_sub(distance)).max(target)
        } else {
            let limit = target.min(config.decay_ceiling);
            if score >= limit { score } else { Points::clamped(from.saturating_add(distance)).min(limit) }
        }
    }
}
