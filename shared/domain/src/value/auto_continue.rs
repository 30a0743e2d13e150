//! When a session goes on by itself (S0 8.5). The loop that runs the criteria stands with the sidecar (ruling 36).

use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

/// The auto-continue configuration of a session (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoContinueConfig {
    /// All must pass.
    pub validation_criteria: Vec<ValidationCriterion>,
    /// How often the session may go on by itself; at least 1.
    pub max_continuations: u32,
    /// How often it did.
    #[serde(default)]
    pub current_continuation_count: u32,
    /// Whether it is switched on.
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
    /// Coverage without a threshold of 0 to 100.
    #[error("CoverageThreshold needs a threshold of 0 to 100")]
    Threshold,
}

impl AutoContinueConfig {
    /// How often a session goes on when nothing else is said (S0 8.5).
    pub const DEFAULT_MAX_CONTINUATIONS: u32 = 5;

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
            if criterion.custom_command.as_ref().is_none_or(|c| c.trim().is_empty()) {
                wrong.push(InvalidAutoContinue::CommandMissing(criterion.kind));
            }
            let in_range = |t: &Decimal| (Decimal::ZERO..=Decimal::ONE_HUNDRED).contains(t);
            if criterion.kind == ValidationType::CoverageThreshold
                && !criterion.threshold.as_ref().is_some_and(in_range)
            {
                wrong.push(InvalidAutoContinue::Threshold);
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
