//! What models do for the coherence of a project: the reviews with their hourly limit and results, the thresholds that follow from them,
//! and the cost of reviews and embeddings.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::comparison::{ComparisonEngine, Thresholds};
use super::config::{CoherenceMonitorConfig, Similarity};
use crate::{CoherenceIssueId, Timestamp, Usd};

/// One item for each project. A review begins and ends with a change of it, so that no issue is reviewed twice at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReviewLedger {
    /// Beginnings of the reviews of the last hour.
    started_at: Vec<Timestamp>,
    running: BTreeMap<CoherenceIssueId, Timestamp>,
    /// Results for similar texts, the latest last.
    outcomes: VecDeque<ReviewOutcome>,
    /// The sum of the adjustments of the promotion threshold of the lexical engine, in thousandths.
    threshold_change: i32,
    /// The same for embeddings.
    embedding_threshold_change: i32,
    usage: ReviewUse,
    embeddings: EmbeddingUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewOutcome {
    at: Timestamp,
    is_false_positive: bool,
    /// The engine that found the pair.
    #[serde(default)]
    engine: ComparisonEngine,
}

/// The reviews of a project so far, and their cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReviewUse {
    /// The number of reviews, also of those that failed.
    pub reviews: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The cost at the price that the server is configured with, or else at the list price of the model.
    pub spent_usd: Usd,
}

/// The embeddings of a project so far, and their cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EmbeddingUse {
    /// The number of texts that were embedded.
    pub texts: u64,
    pub tokens: u64,
    /// The tokens of models whose price is not known. `spentUsd` does not include their cost.
    #[serde(skip_serializing_if = "is_zero")]
    pub unpriced_tokens: u64,
    /// The cost at the price that the server is configured with, or else at the list price of the model.
    pub spent_usd: Usd,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Whether a review may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewStart {
    Now,
    /// The same issue is reviewed, or the limit of the hour is reached.
    Later {
        until: Timestamp,
    },
}

impl ReviewLedger {
    const HOUR: Duration = Duration::from_hours(1);
    /// A review that did not end after this time is repeated. Longer than the function that reviews may run.
    pub const LEASE: Duration = Duration::from_mins(3);
    /// Results that are kept.
    const MAX_OUTCOMES: usize = 1000;

    /// Begins the review of an issue, if the limits permit it. Each attempt counts, also one that fails.
    pub fn begin(&mut self, issue: CoherenceIssueId, max_per_hour: u32, now: Timestamp) -> ReviewStart {
        if let Some(since) = self.running.get(&issue)
            && now.since(*since) < Self::LEASE
        {
            return ReviewStart::Later { until: *since + Self::LEASE };
        }
        self.started_at.retain(|at| now.since(*at) < Self::HOUR);
        let most = max_per_hour as usize;
        if self.started_at.len() >= most {
            // The review that makes room when it is an hour old.
            let oldest = self.started_at.iter().rev().nth(most.saturating_sub(1)).copied();
            return ReviewStart::Later { until: oldest.filter(|_| most > 0).unwrap_or(now) + Self::HOUR };
        }
        self.started_at.push(now);
        self.running.retain(|_, since| now.since(*since) < Self::LEASE);
        self.running.insert(issue, now);
        ReviewStart::Now
    }

    /// Ends the review of an issue, and counts its cost.
    pub fn end(&mut self, issue: CoherenceIssueId, cost: ReviewUse) {
        self.running.remove(&issue);
        let usage = &mut self.usage;
        usage.reviews = usage.reviews.saturating_add(cost.reviews);
        usage.input_tokens = usage.input_tokens.saturating_add(cost.input_tokens);
        usage.output_tokens = usage.output_tokens.saturating_add(cost.output_tokens);
        usage.spent_usd += cost.spent_usd;
    }

    /// Counts the use of an embedding model.
    pub fn count_embeddings(&mut self, cost: EmbeddingUse) {
        let all = &mut self.embeddings;
        all.texts = all.texts.saturating_add(cost.texts);
        all.tokens = all.tokens.saturating_add(cost.tokens);
        all.unpriced_tokens = all.unpriced_tokens.saturating_add(cost.unpriced_tokens);
        all.spent_usd += cost.spent_usd;
    }

    /// Counts the result for a pair of similar texts, and adjusts the threshold of the engine that found it (S2, "False positive feedback
    /// loop"). After an adjustment the count of reviews starts at zero.
    pub fn learn(
        &mut self,
        engine: ComparisonEngine,
        is_false_positive: bool,
        config: &CoherenceMonitorConfig,
        now: Timestamp,
    ) {
        let feedback = &config.feedback_loop;
        let window = Duration::from_hours(feedback.false_positive_window_hours.into());
        if self.outcomes.len() == Self::MAX_OUTCOMES {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(ReviewOutcome { at: now, is_false_positive, engine });
        self.outcomes.retain(|outcome| now.since(outcome.at) < window);
        let of_engine = || self.outcomes.iter().filter(move |outcome| outcome.engine == engine);
        let all = of_engine().count();
        if !feedback.enabled || all < feedback.min_reviews_for_adjustment as usize {
            return;
        }
        let wrong = of_engine().filter(|outcome| outcome.is_false_positive).count();
        let step = if wrong * 2 > all {
            i32::from(feedback.threshold_adjust_step_up.thousandths())
        } else if wrong * 10 < all {
            -i32::from(feedback.threshold_adjust_step_down.thousandths())
        } else {
            return;
        };
        let configured = config.thresholds_of(engine);
        let (min, max) = configured.bounds;
        let promotion = i32::from(configured.promotion.thousandths());
        let change = self.change_of(engine);
        let adjusted =
            (promotion + *change + step).clamp(min.thousandths().into(), max.max(min).thousandths().into());
        *change = adjusted - promotion;
        self.outcomes.retain(|outcome| outcome.engine != engine);
    }

    const fn change_of(&mut self, engine: ComparisonEngine) -> &mut i32 {
        match engine {
            ComparisonEngine::Lexical => &mut self.threshold_change,
            ComparisonEngine::Embeddings => &mut self.embedding_threshold_change,
        }
    }

    /// The thresholds of a scan: the configured ones of its engine, with the adjustments while the feedback loop is on.
    pub fn thresholds(&self, engine: ComparisonEngine, config: &CoherenceMonitorConfig) -> Thresholds {
        let configured = config.thresholds_of(engine);
        Thresholds {
            promotion: self.promotion(engine, config).as_f64(),
            advisory: configured.advisory.as_f64(),
            alignment: configured.alignment.as_f64(),
        }
    }

    fn promotion(&self, engine: ComparisonEngine, config: &CoherenceMonitorConfig) -> Similarity {
        let configured = config.thresholds_of(engine);
        if !config.feedback_loop.enabled {
            return configured.promotion;
        }
        let change = match engine {
            ComparisonEngine::Lexical => self.threshold_change,
            ComparisonEngine::Embeddings => self.embedding_threshold_change,
        };
        let adjusted = i32::from(configured.promotion.thousandths()) + change;
        let adjusted = adjusted.clamp(configured.advisory.thousandths().into(), 1000);
        u16::try_from(adjusted).map_or(configured.promotion, Similarity::from_thousandths)
    }

    pub const fn usage(&self) -> ReviewUse {
        self.usage
    }

    pub const fn embeddings(&self) -> EmbeddingUse {
        self.embeddings
    }

    /// The cost of reviews and embeddings.
    pub fn spent_usd(&self) -> Usd {
        self.usage.spent_usd + self.embeddings.spent_usd
    }
}
