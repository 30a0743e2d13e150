//! When a session goes on by itself (S0 8.5). The loop stands in
//! `session/validation.rs`; the sidecar runs the criteria (ruling 36).

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::cut;

/// What a criterion checks (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValidationType {
    /// The configured test command succeeds.
    TestsPassing,
    /// The coverage that a command prints reaches a threshold.
    CoverageThreshold,
    /// A command succeeds.
    CustomCommand,
    /// The configured lint command succeeds.
    LintPassing,
    /// There are deliverables, and each is passed or blocked (S4, ruling 39). Takes no command: the sidecar reads the status
    /// file of the working directory.
    DeliverablesComplete,
}

/// One criterion (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidationCriterion {
    /// What it checks.
    #[serde(rename = "type")]
    pub kind: ValidationType,
    /// The threshold in percent, for coverage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub threshold: Option<Decimal>,
    /// The command that is run in the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_command: Option<String>,
    /// The regular expression that finds the coverage in the command's output: its first group, or all of it, is the
    /// percentage; the last place counts. Default: the usual summaries of coverage tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_pattern: Option<String>,
}

/// How one criterion did, as the sidecar found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CriterionResult {
    /// What was checked.
    #[serde(rename = "type")]
    pub kind: ValidationType,
    /// Whether it is met.
    pub passed: bool,
    /// Why it is not, in words that an agent can act upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the command printed: its beginning and its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The coverage that was found, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub coverage: Option<Decimal>,
}

/// Why the loop ended although not all criteria are met (S0 8.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AutoContinueEnd {
    /// It went on as often as it may.
    MaxContinuations,
    /// The budget is spent.
    BudgetExhausted,
    /// Nobody knows whether the criteria are met: the sidecar ended, or did not report in time.
    ValidationUnavailable,
    /// The agent was not given the message to go on: it is held, or was refused.
    NotDelivered,
}

/// The auto-continue configuration of a session (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoContinueConfig {
    /// All must pass.
    pub validation_criteria: Vec<ValidationCriterion>,
    /// How often the session may go on by itself; at least 1. Default: 5.
    #[serde(default = "AutoContinueConfig::default_max")]
    pub max_continuations: u32,
    /// How often it did.
    #[serde(default)]
    pub current_continuation_count: u32,
    /// Seconds that all criteria together may take; what runs then is ended and counts as failed. Default: 30 minutes.
    #[serde(default = "AutoContinueConfig::default_timeout")]
    pub validation_timeout_seconds: u64,
    /// Whether it is switched on. Default: yes.
    #[serde(default = "AutoContinueConfig::enabled")]
    pub is_enabled: bool,
}

/// A configuration that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAutoContinue {
    /// No continuation allowed at all.
    #[error("maxContinuations must be at least 1")]
    MaxContinuations,
    /// Nothing to check.
    #[error("validationCriteria must have 1 to 20 entries")]
    NoCriteria,
    /// A criterion without the command that it needs (ruling 36).
    #[error("{0:?} needs a customCommand")]
    CommandMissing(ValidationType),
    /// A command where none is run.
    #[error("DeliverablesComplete takes no customCommand")]
    Command,
    /// Coverage without a threshold of 0 to 100.
    #[error("CoverageThreshold needs a threshold of 0 to 100")]
    Threshold,
    /// A pattern where there is no coverage to be found.
    #[error("only CoverageThreshold has a coveragePattern")]
    Pattern,
    /// A text that is too long.
    #[error("customCommand and coveragePattern must be at most {MAX_TEXT} characters")]
    TooLong,
    /// No time, or too much.
    #[error("validationTimeoutSeconds must be 1 to {MAX_TIMEOUT}")]
    Timeout,
}

/// The most characters of a command or a pattern.
const MAX_TEXT: usize = 4000;
/// The most seconds that a validation may take: a day.
const MAX_TIMEOUT: u64 = 24 * 60 * 60;

impl AutoContinueConfig {
    /// How often a session goes on when nothing else is said (S0 8.5).
    pub const DEFAULT_MAX_CONTINUATIONS: u32 = 5;

    /// Everything but the criteria as it is when nothing else is said.
    pub const fn until(validation_criteria: Vec<ValidationCriterion>) -> Self {
        Self {
            validation_criteria,
            max_continuations: Self::default_max(),
            current_continuation_count: 0,
            validation_timeout_seconds: Self::default_timeout(),
            is_enabled: true,
        }
    }

    const fn default_timeout() -> u64 {
        30 * 60
    }

    const fn default_max() -> u32 {
        Self::DEFAULT_MAX_CONTINUATIONS
    }

    const fn enabled() -> bool {
        true
    }

    /// Whether it goes on once more after a validation that failed.
    pub(crate) const fn may_continue(&self) -> bool {
        self.current_continuation_count < self.max_continuations
    }

    /// Why a validation with these results failed, in a sentence without its full stop; none: it passed.
    pub(crate) fn failure(results: &[CriterionResult]) -> Option<String> {
        let failed: Vec<_> = results
            .iter()
            .filter(|result| !result.passed)
            .map(|result| format!("{:?}: {}", result.kind, result.reason.as_deref().unwrap_or("not met")))
            .collect();
        let reason = cut(&failed.join("; "), 2000);
        (!failed.is_empty()).then(|| reason.trim_end_matches('.').to_owned())
    }

    /// Checks the configuration and names everything that is wrong with it.
    pub fn check(&self) -> Result<(), Vec<InvalidAutoContinue>> {
        let mut wrong = Vec::new();
        if self.max_continuations == 0 {
            wrong.push(InvalidAutoContinue::MaxContinuations);
        }
        if self.validation_criteria.is_empty() || self.validation_criteria.len() > 20 {
            wrong.push(InvalidAutoContinue::NoCriteria);
        }
        for criterion in &self.validation_criteria {
            let of_deliverables = criterion.kind == ValidationType::DeliverablesComplete;
            if of_deliverables && criterion.custom_command.is_some() {
                wrong.push(InvalidAutoContinue::Command);
            }
            let commandless = criterion.custom_command.as_ref().is_none_or(|c| c.trim().is_empty());
            if commandless && !of_deliverables {
                wrong.push(InvalidAutoContinue::CommandMissing(criterion.kind));
            }
            let in_range = |t: &Decimal| (Decimal::ZERO..=Decimal::ONE_HUNDRED).contains(t);
            if criterion.kind == ValidationType::CoverageThreshold
                && !criterion.threshold.as_ref().is_some_and(in_range)
            {
                wrong.push(InvalidAutoContinue::Threshold);
            }
            if criterion.kind != ValidationType::CoverageThreshold && criterion.coverage_pattern.is_some() {
                wrong.push(InvalidAutoContinue::Pattern);
            }
            let too_long = |text: &String| text.chars().count() > MAX_TEXT;
            if criterion.custom_command.iter().chain(&criterion.coverage_pattern).any(too_long) {
                wrong.push(InvalidAutoContinue::TooLong);
            }
        }
        if !(1..=MAX_TIMEOUT).contains(&self.validation_timeout_seconds) {
            wrong.push(InvalidAutoContinue::Timeout);
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
