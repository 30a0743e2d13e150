//! The reviews of a project by a model: their hourly limit, their results, their cost, and the threshold that follows from them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::{CoherenceMonitorConfig, Similarity};
use super::similarity::Thresholds;
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
    /// The sum of the adjustments of the promotion threshold, in thousandths.
    threshold_change: i32,
    usage: ReviewUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewOutcome {
    at: Timestamp,
    is_false_positive: bool,
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

    /// Counts the result for a pair of similar texts, and adjusts the threshold (S2, "False positive feedback loop"). After an adjustment
    /// the reviews are counted anew.
    pub fn learn(&mut self, is_false_positive: bool, config: &CoherenceMonitorConfig, now: Timestamp) {
        let feedback = &config.feedback_loop;
        let window = Duration::from_hours(feedback.false_positive_window_hours.into());
        if self.outcomes.len() == Self::MAX_OUTCOMES {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(ReviewOutcome { at: now, is_false_positive });
        self.outcomes.retain(|outcome| now.since(outcome.at) < window);
        let all = self.outcomes.len();
        if !feedback.enabled || all < feedback.min_reviews_for_adjustment as usize {
            return;
        }
        let wrong = self.outcomes.iter().filter(|outcome| outcome.is_false_positive).count();
        let step = if wrong * 2 > all {
            i32::from(feedback.threshold_adjust_step_up.thousandths())
        } else if wrong * 10 < all {
            -i32::from(feedback.threshold_adjust_step_down.thousandths())
        } else {
            return;
        };
        let configured = i32::from(config.layer1_promotion_threshold.thousandths());
        let min = feedback.threshold_clamp_min;
        let max = feedback.threshold_clamp_max.max(min);
        let adjusted = configured + self.threshold_change + step;
        let adjusted = adjusted.clamp(min.thousandths().into(), max.thousandths().into());
        self.threshold_change = adjusted - configured;
        self.outcomes.clear();
    }

    /// The thresholds of a scan: the configured ones, with the adjustments while the feedback loop is on.
    pub fn thresholds(&self, config: &CoherenceMonitorConfig) -> Thresholds {
        let advisory = config.layer1_advisory_threshold;
        Thresholds { promotion: self.promotion(config).as_f64(), advisory: advisory.as_f64() }
    }

    fn promotion(&self, config: &CoherenceMonitorConfig) -> Similarity {
        let configured = config.layer1_promotion_threshold;
        if !config.feedback_loop.enabled {
            return configured;
        }
        let adjusted = i32::from(configured.thousandths()) + self.threshold_change;
        let adjusted = adjusted.clamp(config.layer1_advisory_threshold.thousandths().into(), 1000);
        u16::try_from(adjusted).map_or(configured, Similarity::from_thousandths)
    }

    pub const fn usage(&self) -> ReviewUse {
        self.usage
    }
}
