//! Parameters of the trust engine (S2, "Trust score calibration").

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Factor, Points, Rate, TrustOutcome};
use crate::effect::Severity;
use crate::names::named;

/// All parameters of a project's trust engine. Fields that are missing in JSON have the defaults of the `balanced` profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TrustCalibrationConfig {
    /// Score of a new agent.
    pub initial_score: Points,
    pub floor_score: Points,
    pub ceiling_score: Points,
    /// Score towards which inactive agents drift.
    pub decay_target_score: Points,
    /// Points for each inactive tick.
    pub decay_rate_per_tick: Points,
    /// Highest score that decay alone reaches from below.
    pub decay_ceiling: Points,
    /// Above this score all changes are halved.
    pub diminishing_return_threshold_high: Points,
    /// Below this score all changes are halved.
    pub diminishing_return_threshold_low: Points,
    /// Base changes that replace those of S2's table. The profile's multipliers do not apply to them.
    pub delta_table: BTreeMap<TrustOutcome, Points>,
    /// Weight of a change by the severity of the action. Missing severities have the default weight.
    pub risk_weights: BTreeMap<Severity, Factor>,
    /// Keeps scores as they are, and calculates hypothetical ones beside them.
    pub calibration_mode: bool,
    /// Asks a person for actions of a kind whose approval rate, by the lower end of its 95 % interval, is below this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_below_approval_rate: Option<Rate>,
    /// When to propose that an agent may perform a kind of action without asking; `None`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autonomy: Option<AutonomyPolicy>,
}

/// When an agent is proposed for more autonomy, and when it loses it again. Both compare the lower end of the 95 % interval of the
/// approval rate of one action kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AutonomyPolicy {
    /// At or above this rate, a person is asked whether the agent may do without approval.
    pub propose_at: Rate,
    /// Below this rate, a granted autonomy ends at once.
    pub revoke_below: Rate,
}

impl Default for AutonomyPolicy {
    fn default() -> Self {
        Self { propose_at: Rate::percent(90), revoke_below: Rate::percent(80) }
    }
}

impl Default for TrustCalibrationConfig {
    fn default() -> Self {
        Self {
            initial_score: Points::whole(50),
            floor_score: Points::whole(10),
            ceiling_score: Points::whole(100),
            decay_target_score: Points::whole(50),
            decay_rate_per_tick: Points::clamped(10),
            decay_ceiling: Points::whole(50),
            diminishing_return_threshold_high: Points::whole(90),
            diminishing_return_threshold_low: Points::whole(20),
            delta_table: BTreeMap::new(),
            risk_weights: BTreeMap::new(),
            calibration_mode: false,
            escalate_below_approval_rate: None,
            autonomy: None,
        }
    }
}

/// The texts start with the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCalibration {
    #[error("{field} must be from 0 to 100")]
    ScoreOutOfRange { field: &'static str },
    #[error("floorScore must be less than ceilingScore")]
    FloorNotBelowCeiling,
    #[error("{field} must be from floorScore to ceilingScore")]
    OutsideScores { field: &'static str },
    #[error("diminishingReturnThresholdLow must not be above diminishingReturnThresholdHigh")]
    ThresholdsCrossed,
    #[error("decayRatePerTick must be from 0 to 100")]
    DecayRate,
    #[error("deltaTable.{outcome} must be from -100 to 100")]
    Delta { outcome: TrustOutcome },
    #[error("{field} must be from 0 to 10")]
    FactorOutOfRange { field: String },
    #[error("autonomy.revokeBelow must not be above autonomy.proposeAt")]
    AutonomyCrossed,
}

impl TrustCalibrationConfig {
    /// Weight of an action that has this severity, by default: S2's 0.5 for `low` and 2 for `critical`.
    pub const fn default_risk_weight(severity: Severity) -> Factor {
        Factor::percent(match severity {
            Severity::Warning | Severity::Low => 50,
            Severity::Medium => 100,
            Severity::High => 150,
            Severity::Critical => 200,
        })
    }

    pub fn risk_weight(&self, severity: Severity) -> Factor {
        self.risk_weights.get(&severity).copied().unwrap_or(Self::default_risk_weight(severity))
    }

    /// Names every violation.
    pub fn check(&self) -> Result<(), Vec<InvalidCalibration>> {
        let mut found = Vec::new();
        let range = |points: Points| (Points::ZERO..=Points::MAX_SCORE).contains(&points);
        let scores = [
            ("floorScore", self.floor_score),
            ("ceilingScore", self.ceiling_score),
            ("initialScore", self.initial_score),
            ("decayTargetScore", self.decay_target_score),
            ("decayCeiling", self.decay_ceiling),
            ("diminishingReturnThresholdHigh", self.diminishing_return_threshold_high),
            ("diminishingReturnThresholdLow", self.diminishing_return_threshold_low),
        ];
        for (field, score) in scores {
            if !range(score) {
                found.push(InvalidCalibration::ScoreOutOfRange { field });
            }
        }
        if self.floor_score >= self.ceiling_score {
            found.push(InvalidCalibration::FloorNotBelowCeiling);
        } else {
            for (field, score) in &scores[2..5] {
                if range(*score) && !(self.floor_score..=self.ceiling_score).contains(score) {
                    found.push(InvalidCalibration::OutsideScores { field });
                }
            }
        }
        if self.diminishing_return_threshold_low > self.diminishing_return_threshold_high {
            found.push(InvalidCalibration::ThresholdsCrossed);
        }
        if !range(self.decay_rate_per_tick) {
            found.push(InvalidCalibration::DecayRate);
        }
        for (outcome, delta) in &self.delta_table {
            if delta.thousandths().abs() > Points::MAX_SCORE.thousandths() {
                found.push(InvalidCalibration::Delta { outcome: *outcome });
            }
        }
        for (severity, weight) in &self.risk_weights {
            if *weight > MAX_FACTOR {
                found.push(InvalidCalibration::FactorOutOfRange { field: format!("riskWeights.{severity}") });
            }
        }
        if self.autonomy.is_some_and(|policy| policy.revoke_below > policy.propose_at) {
            found.push(InvalidCalibration::AutonomyCrossed);
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}

const MAX_FACTOR: Factor = Factor::percent(1000);

/// Name of a preset of the trust engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrustProfileName {
    /// Production, compliance, security.
    Conservative,
    /// General development.
    #[default]
    Balanced,
    /// Prototypes, content, low risk.
    Permissive,
}

named!(TrustProfileName {
    Conservative => "conservative",
    Balanced => "balanced",
    Permissive => "permissive",
});

impl TrustProfileName {
    pub const ALL: [Self; 3] = [Self::Conservative, Self::Balanced, Self::Permissive];
}

/// A preset with the changes of its project. The trust engine calculates with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustCalibrationProfile {
    /// The preset that the values come from.
    pub name: TrustProfileName,
    pub config: TrustCalibrationConfig,
    pub negative_delta_multiplier: Factor,
    pub positive_delta_multiplier: Factor,
}

impl Default for TrustCalibrationProfile {
    fn default() -> Self {
        Self::preset(TrustProfileName::default())
    }
}

impl TrustCalibrationProfile {
    /// **The table of profiles** of S2.
    pub fn preset(name: TrustProfileName) -> Self {
        let (initial, decay_thousandths, negative, positive) = match name {
            TrustProfileName::Conservative => (30, 20, 150, 75),
            TrustProfileName::Balanced => (50, 10, 100, 100),
            TrustProfileName::Permissive => (70, 5, 50, 125),
        };
        Self {
            name,
            config: TrustCalibrationConfig {
                initial_score: Points::whole(initial),
                decay_rate_per_tick: Points::clamped(decay_thousandths),
                ..TrustCalibrationConfig::default()
            },
            negative_delta_multiplier: Factor::percent(negative),
            positive_delta_multiplier: Factor::percent(positive),
        }
    }

    pub fn check(&self) -> Result<(), Vec<InvalidCalibration>> {
        let mut found = self.config.check().err().unwrap_or_default();
        let multipliers = [
            ("negativeDeltaMultiplier", self.negative_delta_multiplier),
            ("positiveDeltaMultiplier", self.positive_delta_multiplier),
        ];
        for (field, factor) in multipliers {
            if factor > MAX_FACTOR {
                found.push(InvalidCalibration::FactorOutOfRange { field: field.to_owned() });
            }
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}
