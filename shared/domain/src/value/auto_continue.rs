//! Configuration of auto-continue (S0 8.5). The loop is in `session/validation.rs`; the sidecar runs the criteria (decision 36).

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::cut;

/// What a criterion checks (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValidationType {
    /// The configured test command succeeds.
    TestsPassing,
    /// The coverage in a command's output reaches a threshold.
    CoverageThreshold,
    /// A command succeeds.
    CustomCommand,
    /// The configured lint command succeeds.
    LintPassing,
    /// At least one deliverable exists, and each is passed or blocked (S4, decision 39). Takes no command: the sidecar reads the
    /// status file of the working directory.
    DeliverablesComplete,
}

crate::names::named!(ValidationType {
    TestsPassing => "TestsPassing",
    CoverageThreshold => "CoverageThreshold",
    CustomCommand => "CustomCommand",
    LintPassing => "LintPassing",
    DeliverablesComplete => "DeliverablesComplete",
});

/// A criterion that a turn has to meet (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidationCriterion {
    #[serde(rename = "type")]
    pub kind: ValidationType,
    /// Threshold in percent, for coverage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub threshold: Option<Decimal>,
    /// Command to run in the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_command: Option<String>,
    /// Regular expression that finds the coverage in the command's output. The first group, or else the whole match, is the
    /// percentage; the last match counts. Default: the usual summary formats of coverage tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_pattern: Option<String>,
}

/// Result of a criterion, as the sidecar found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CriterionResult {
    #[serde(rename = "type")]
    pub kind: ValidationType,
    /// Whether it is met.
    pub passed: bool,
    /// Why the criterion is not met, in words that an agent can act upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Start and end of the command's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Measured coverage, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub coverage: Option<Decimal>,
}

/// Why auto-continue stopped before all criteria were met (S0 8.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AutoContinueEnd {
    /// The maximum number of continuations is reached.
    MaxContinuations,
    /// The budget is used up.
    BudgetExhausted,
    /// The criteria could not be checked: the sidecar ended or did not report in time.
    ValidationUnavailable,
    /// The agent did not receive the message to continue: it was held or refused.
    NotDelivered,
}

/// Auto-continue configuration of a session (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoContinueConfig {
    /// Criteria that a turn has to meet; all must pass.
    pub validation_criteria: Vec<ValidationCriterion>,
    /// Most automatic continuations; at least 1. Default: 5.
    #[serde(default = "AutoContinueConfig::default_max")]
    pub max_continuations: u32,
    /// Number of continuations so far.
    #[serde(default)]
    pub current_continuation_count: u32,
    /// Time limit for all criteria together, in seconds. A criterion that exceeds it fails. Default: 30 minutes.
    #[serde(default = "AutoContinueConfig::default_timeout")]
    pub validation_timeout_seconds: u64,
    /// Whether auto-continue is on. Default: yes.
    #[serde(default = "AutoContinueConfig::enabled")]
    pub is_enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAutoContinue {
    #[error("maxContinuations must be at least 1")]
    MaxContinuations,
    #[error("validationCriteria must have 1 to 20 entries")]
    NoCriteria,
    /// A criterion lacks the command that it needs (decision 36).
    #[error("{0} needs a customCommand")]
    CommandMissing(ValidationType),
    /// A criterion that runs no command has one.
    #[error("DeliverablesComplete takes no customCommand")]
    Command,
    /// Coverage without a threshold between 0 and 100.
    #[error("CoverageThreshold needs a threshold of 0 to 100")]
    Threshold,
    /// A coverage pattern on a criterion that measures no coverage.
    #[error("only CoverageThreshold has a coveragePattern")]
    Pattern,
    #[error("customCommand and coveragePattern must be at most {MAX_TEXT} characters")]
    TooLong,
    #[error("validationTimeoutSeconds must be 1 to {MAX_TIMEOUT}")]
    Timeout,
}

/// Most characters of a command or pattern.
const MAX_TEXT: usize = 4000;
/// Longest time limit of a validation: one day.
const MAX_TIMEOUT: u64 = 24 * 60 * 60;

impl AutoContinueConfig {
    /// Default of `max_continuations` (S0 8.5).
    pub const DEFAULT_MAX_CONTINUATIONS: u32 = 5;

    /// A configuration with these criteria and defaults for everything else.
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

    pub(crate) const fn may_continue(&self) -> bool {
        self.current_continuation_count < self.max_continuations
    }

    /// Why a validation with these results failed, as a sentence without a full stop; `None` if it passed.
    pub(crate) fn failure(results: &[CriterionResult]) -> Option<String> {
        let failed: Vec<_> = results
            .iter()
            .filter(|result| !result.passed)
            .map(|result| format!("{}: {}", result.kind, result.reason.as_deref().unwrap_or("not met")))
            .collect();
        let reason = cut(&failed.join("; "), 2000);
        (!failed.is_empty()).then(|| reason.trim_end_matches('.').to_owned())
    }

    /// Checks the configuration and returns everything that is wrong with it.
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
