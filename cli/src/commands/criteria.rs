//! The options for auto-continue (S0 8.5, S4).

use clap::Args;
use pilothouse_domain::value::{AutoContinueConfig, ValidationCriterion, ValidationType};

use super::parse;
use crate::error::CliError;

/// The options for auto-continue.
#[derive(Debug, Clone, Default, Args)]
pub struct Criteria {
    /// Continue until this criterion is met; may be repeated: tests=COMMAND, lint=COMMAND, command=COMMAND or
    /// coverage:PERCENT=COMMAND
    #[arg(long, value_parser = criterion, value_name = "KIND=COMMAND")]
    pub criteria: Vec<ValidationCriterion>,
    /// Continue until there are deliverables and each is passed or blocked
    #[arg(long)]
    pub require_deliverables: bool,
    /// The maximum number of automatic continuations [default: 5]
    #[arg(long, value_name = "TIMES")]
    pub max_continuations: Option<u32>,
    /// The time limit for all criteria together: 90s, 30m [default: 30m]
    #[arg(long, value_parser = parse::duration, value_name = "TIME")]
    pub validation_timeout: Option<std::time::Duration>,
}

/// Reads a criterion: `tests=cargo test`, `coverage:80=cargo llvm-cov`.
fn criterion(given: &str) -> Result<ValidationCriterion, String> {
    let wrong =
        || "must be tests=COMMAND, lint=COMMAND, command=COMMAND or coverage:PERCENT=COMMAND".to_owned();
    let (kind, command) =
        given.split_once('=').filter(|(_, command)| !command.trim().is_empty()).ok_or_else(wrong)?;
    let (kind, threshold) = match kind.split_once(':') {
        None => (kind, None),
        Some((kind, percent)) => (kind, Some(percent.parse().map_err(|_| wrong())?)),
    };
    let kind = match (kind, threshold) {
        ("tests", None) => ValidationType::TestsPassing,
        ("lint", None) => ValidationType::LintPassing,
        ("command", None) => ValidationType::CustomCommand,
        ("coverage", Some(_)) => ValidationType::CoverageThreshold,
        _ => return Err(wrong()),
    };
    Ok(ValidationCriterion {
        kind,
        threshold,
        custom_command: Some(command.to_owned()),
        coverage_pattern: None,
    })
}

impl Criteria {
    /// The configuration of the options; none without a criterion.
    pub(super) fn config(self) -> Result<Option<AutoContinueConfig>, CliError> {
        let mut validation_criteria = self.criteria;
        if self.require_deliverables {
            validation_criteria.push(ValidationCriterion {
                kind: ValidationType::DeliverablesComplete,
                threshold: None,
                custom_command: None,
                coverage_pattern: None,
            });
        }
        if validation_criteria.is_empty() {
            let alone = self.max_continuations.is_some() || self.validation_timeout.is_some();
            return if alone {
                Err(CliError::Usage("name a criterion: --criteria or --require-deliverables".into()))
            } else {
                Ok(None)
            };
        }
        let usual = AutoContinueConfig::until(validation_criteria);
        Ok(Some(AutoContinueConfig {
            max_continuations: self.max_continuations.unwrap_or(usual.max_continuations),
            validation_timeout_seconds: self
                .validation_timeout
                .map_or(usual.validation_timeout_seconds, |timeout| timeout.as_secs()),
            ..usual
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_read_or_refused() {
        let tests = criterion("tests=cargo test --all=x").unwrap();
        assert_eq!(tests.kind, ValidationType::TestsPassing);
        assert_eq!(tests.custom_command.as_deref(), Some("cargo test --all=x"));
        let coverage = criterion("coverage:82.5=make cov").unwrap();
        assert_eq!(coverage.threshold, Some("82.5".parse().unwrap()));
        for wrong in ["tests", "tests=", "tests:3=x", "coverage=x", "coverage:much=x", "style=x"] {
            assert!(criterion(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn empty_criteria_disable_the_loop_and_refuse_its_limit() {
        assert_eq!(Criteria::default().config().unwrap(), None);
        let limited = Criteria { max_continuations: Some(3), ..Criteria::default() };
        assert!(matches!(limited.config(), Err(CliError::Usage(_))));
    }

    #[test]
    fn deliverables_can_be_required() {
        let criteria =
            Criteria { require_deliverables: true, max_continuations: Some(9), ..Criteria::default() };
        let config = criteria.config().unwrap().unwrap();
        assert_eq!(config.check(), Ok(()));
        assert_eq!((config.max_continuations, config.validation_timeout_seconds), (9, 1800));
    }
}
