//! The configuration of coherence monitoring in a project (S2 `CoherenceMonitorConfig`; decision 91).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::comparison::ComparisonEngine;
use super::similarity::MAX_ARTIFACTS;
use crate::effect::Confidence;
use crate::text::ModelId;

/// A similarity from 0 to 1, or a difference of two, rounded to three decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Similarity(Confidence);

impl Similarity {
    pub const fn percent(percent: u8) -> Self {
        Self(Confidence::percent(percent))
    }

    /// Values above 1000 count as 1000.
    pub fn from_thousandths(thousandths: u16) -> Self {
        Self(Confidence::from_thousandths(thousandths).unwrap_or(Confidence::FULL))
    }

    pub const fn thousandths(self) -> u16 {
        self.0.thousandths()
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.thousandths()) / 1000.0
    }
}

/// How the coherence of a project is monitored. Fields that are left out have their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CoherenceMonitorConfig {
    /// The ticks between two scans for similar texts: 1 to 100,000.
    pub layer1_scan_interval_ticks: u64,
    /// From this similarity of the lexical engine on, a pair of texts is an issue of medium severity, which a model reviews.
    pub layer1_promotion_threshold: Similarity,
    /// From this similarity of the lexical engine on, a pair of texts is an issue of low severity.
    pub layer1_advisory_threshold: Similarity,
    /// The most artifacts that a scan compares: 1 to 500. In a larger project it compares nothing.
    pub layer1_max_artifacts_per_scan: usize,
    /// The embedding model. Absent: the one that the server is configured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_model: Option<ModelId>,
    /// Whether and how texts are compared by embeddings, if the server is configured with a model for them.
    pub embeddings: EmbeddingsConfig,
    /// The most reviews by the model in an hour: 0 to 1,000. Further issues wait.
    pub layer2_max_reviews_per_hour: u32,
    /// The model of reviews. Absent: the model that the server is configured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer2_model: Option<ModelId>,
    /// Whether a model reviews issues, if the server is configured with one. Otherwise, only people confirm them.
    pub enable_layer2: bool,
    /// Whether and how the results of reviews change the promotion threshold.
    pub feedback_loop: CoherenceFeedbackLoopConfig,
}

/// How texts are compared by embeddings. Otherwise the lexical engine compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct EmbeddingsConfig {
    /// Whether texts are sent to the embedding model.
    pub enabled: bool,
    /// From this similarity on, a pair of texts is an issue of medium severity, which a model reviews.
    pub promotion_threshold: Similarity,
    /// From this similarity on, a pair of texts is an issue of low severity.
    pub advisory_threshold: Similarity,
    /// The lowest promotion threshold after an adjustment by the feedback loop.
    pub threshold_clamp_min: Similarity,
    /// The highest promotion threshold after an adjustment by the feedback loop.
    pub threshold_clamp_max: Similarity,
}

/// How the results of reviews change the promotion threshold (S2, "False positive feedback loop").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CoherenceFeedbackLoopConfig {
    pub enabled: bool,
    /// The length of the window in which reviews count: 1 to 168 hours.
    pub false_positive_window_hours: u32,
    /// The threshold rises by this if more than half of the reviews were false positives.
    pub threshold_adjust_step_up: Similarity,
    /// The threshold falls by this if fewer than a tenth of the reviews were false positives.
    pub threshold_adjust_step_down: Similarity,
    /// The lowest promotion threshold of the lexical engine after an adjustment.
    pub threshold_clamp_min: Similarity,
    /// The highest promotion threshold of the lexical engine after an adjustment.
    pub threshold_clamp_max: Similarity,
    /// With fewer reviews, the threshold stays: 1 to 1,000.
    pub min_reviews_for_adjustment: u32,
}

/// Each text begins with the field that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCoherenceConfig {
    #[error("layer1ScanIntervalTicks must be from 1 to {}", CoherenceMonitorConfig::MAX_INTERVAL)]
    Interval,
    #[error("layer1AdvisoryThreshold must not exceed layer1PromotionThreshold")]
    Advisory,
    #[error("layer1MaxArtifactsPerScan must be from 1 to {MAX_ARTIFACTS}")]
    Artifacts,
    #[error("embeddings.advisoryThreshold must not exceed promotionThreshold")]
    EmbeddingsAdvisory,
    #[error("embeddings.thresholdClampMin must not exceed thresholdClampMax")]
    EmbeddingsClamp,
    #[error("layer2MaxReviewsPerHour must be at most {}", CoherenceMonitorConfig::MAX_REVIEWS)]
    Reviews,
    #[error(
        "feedbackLoop.falsePositiveWindowHours must be from 1 to {}",
        CoherenceFeedbackLoopConfig::MAX_HOURS
    )]
    Window,
    #[error("feedbackLoop.thresholdClampMin must not exceed thresholdClampMax")]
    Clamp,
    #[error("feedbackLoop.minReviewsForAdjustment must be from 1 to {}", CoherenceMonitorConfig::MAX_REVIEWS)]
    MinReviews,
}

impl Default for CoherenceMonitorConfig {
    /// S2's defaults, except for the thresholds: S2's are those of embeddings. The ones of the lexical engine were chosen on labelled pairs
    /// (`docs/benchmarks.md`).
    fn default() -> Self {
        Self {
            layer1_scan_interval_ticks: 10,
            layer1_promotion_threshold: Similarity::percent(52),
            layer1_advisory_threshold: Similarity::percent(32),
            layer1_max_artifacts_per_scan: MAX_ARTIFACTS,
            embedding_model: None,
            embeddings: EmbeddingsConfig::default(),
            layer2_max_reviews_per_hour: 10,
            layer2_model: None,
            enable_layer2: true,
            feedback_loop: CoherenceFeedbackLoopConfig::default(),
        }
    }
}

impl Default for EmbeddingsConfig {
    /// S2's thresholds and bounds.
    fn default() -> Self {
        Self {
            enabled: true,
            promotion_threshold: Similarity::percent(85),
            advisory_threshold: Similarity::percent(70),
            threshold_clamp_min: Similarity::percent(75),
            threshold_clamp_max: Similarity::percent(95),
        }
    }
}

impl Default for CoherenceFeedbackLoopConfig {
    /// S2's defaults, except for the bounds, which are as far from the promotion threshold as S2's 0.75 and 0.95 from 0.85.
    fn default() -> Self {
        Self {
            enabled: false,
            false_positive_window_hours: 24,
            threshold_adjust_step_up: Similarity::percent(2),
            threshold_adjust_step_down: Similarity::percent(1),
            threshold_clamp_min: Similarity::percent(42),
            threshold_clamp_max: Similarity::percent(62),
            min_reviews_for_adjustment: 20,
        }
    }
}

impl CoherenceFeedbackLoopConfig {
    /// A week.
    pub const MAX_HOURS: u32 = 7 * 24;
}

/// The configured thresholds of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EngineThresholds {
    pub(super) promotion: Similarity,
    pub(super) advisory: Similarity,
    /// The bounds of the promotion threshold.
    pub(super) bounds: (Similarity, Similarity),
    /// Below, an artifact does not reflect a decision that names it. S2 has no setting for it.
    pub(super) alignment: Similarity,
}

impl CoherenceMonitorConfig {
    pub(super) const fn thresholds_of(&self, engine: ComparisonEngine) -> EngineThresholds {
        match engine {
            ComparisonEngine::Lexical => EngineThresholds {
                promotion: self.layer1_promotion_threshold,
                advisory: self.layer1_advisory_threshold,
                bounds: (self.feedback_loop.threshold_clamp_min, self.feedback_loop.threshold_clamp_max),
                // Texts on different subjects share few words, and short decisions share few with long documents.
                alignment: Similarity::percent(3),
            },
            ComparisonEngine::Embeddings => EngineThresholds {
                promotion: self.embeddings.promotion_threshold,
                advisory: self.embeddings.advisory_threshold,
                bounds: (self.embeddings.threshold_clamp_min, self.embeddings.threshold_clamp_max),
                alignment: Similarity::percent(30),
            },
        }
    }

    pub const MAX_INTERVAL: u64 = 100_000;
    pub const MAX_REVIEWS: u32 = 1000;

    /// Names every violation.
    pub fn check(&self) -> Result<(), Vec<InvalidCoherenceConfig>> {
        use InvalidCoherenceConfig as I;
        let (feedback, embeddings) = (&self.feedback_loop, &self.embeddings);
        let checks = [
            ((1..=Self::MAX_INTERVAL).contains(&self.layer1_scan_interval_ticks), I::Interval),
            (self.layer1_advisory_threshold <= self.layer1_promotion_threshold, I::Advisory),
            ((1..=MAX_ARTIFACTS).contains(&self.layer1_max_artifacts_per_scan), I::Artifacts),
            (embeddings.advisory_threshold <= embeddings.promotion_threshold, I::EmbeddingsAdvisory),
            (embeddings.threshold_clamp_min <= embeddings.threshold_clamp_max, I::EmbeddingsClamp),
            (self.layer2_max_reviews_per_hour <= Self::MAX_REVIEWS, I::Reviews),
            (
                (1..=CoherenceFeedbackLoopConfig::MAX_HOURS).contains(&feedback.false_positive_window_hours),
                I::Window,
            ),
            (feedback.threshold_clamp_min <= feedback.threshold_clamp_max, I::Clamp),
            ((1..=Self::MAX_REVIEWS).contains(&feedback.min_reviews_for_adjustment), I::MinReviews),
        ];
        let found: Vec<_> = checks.into_iter().filter(|(holds, _)| !holds).map(|(_, it)| it).collect();
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}
