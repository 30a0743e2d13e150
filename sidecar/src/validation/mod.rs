//! Checks the validation criteria of an autonomous session (S0 8.5, 8.10; decision 36). A criterion is a shell
//! command in the working directory, or the status of the deliverables there.
//!
//! | module | purpose |
//! |---|---|
//! | `deliverables` | reads the status of the deliverables |
//! | `command` | runs one command with a limit, and ends it with everything that it started |
//! | `output` | keeps a bounded part of a command's output |

mod command;
mod deliverables;
mod output;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_domain::CommandId;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{CriterionResult, ValidationCriterion, ValidationType};
use pilothouse_wire::RawEvent;
use pilothouse_wire::coverage::CoveragePattern;
use rust_decimal::Decimal;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::process::Processes;
use crate::redaction::Redactor;
use command::{CommandEnd, CommandOutput};

/// In characters, for a command in a reason.
const MAX_COMMAND: usize = 200;

/// A running validation. Dropping it cancels it.
pub(crate) struct Validation {
    command_id: CommandId,
    task: JoinHandle<Vec<CriterionResult>>,
}

impl Validation {
    /// Starts to check `criteria` in `folder`. The results contain no secret that `redactor` knows.
    pub(crate) fn begin(
        command_id: CommandId,
        criteria: Vec<ValidationCriterion>,
        limit: Duration,
        folder: PathBuf,
        processes: Processes,
        redactor: Redactor,
    ) -> Self {
        Self { command_id, task: tokio::spawn(check(criteria, limit, folder, processes, redactor)) }
    }

    /// Waits for the end. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> RawEvent {
        let results = (&mut self.task).await.unwrap_or_default();
        RawEvent::ValidationResult { command_id: self.command_id, results }
    }

    pub(crate) const fn command_id(&self) -> CommandId {
        self.command_id
    }

    /// When this returns, its processes are killed.
    pub(crate) async fn break_off(mut self) -> RawEvent {
        self.task.abort();
        // If it has just ended, its results count.
        self.ended().await
    }
}

impl Drop for Validation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Checks the criteria one after the other. `limit` applies to their total time.
async fn check(
    criteria: Vec<ValidationCriterion>,
    limit: Duration,
    folder: PathBuf,
    processes: Processes,
    redactor: Redactor,
) -> Vec<CriterionResult> {
    let deadline = Instant::now() + limit;
    let mut results = Vec::with_capacity(criteria.len());
    for criterion in criteria {
        if criterion.kind == ValidationType::DeliverablesComplete {
            results.push(deliverables_of(&folder).await);
            continue;
        }
        let command = criterion.custom_command.clone().unwrap_or_default();
        let printed = Box::pin(command::run(&command, &folder, &processes, &redactor, deadline)).await;
        results.push(judge(&criterion, &cut(&command, MAX_COMMAND), printed, limit));
    }
    results
}

async fn deliverables_of(folder: &Path) -> CriterionResult {
    let folder = folder.to_owned();
    let reason = tokio::task::spawn_blocking(move || deliverables::incomplete(&folder)).await;
    let reason = reason.unwrap_or_else(|error| Some(error.to_string()));
    let kind = ValidationType::DeliverablesComplete;
    CriterionResult { kind, passed: reason.is_none(), reason, output: None, coverage: None }
}

fn judge(
    criterion: &ValidationCriterion,
    command: &str,
    printed: CommandOutput,
    limit: Duration,
) -> CriterionResult {
    let last_line = printed.last_line().map(|line| format!(": {line}")).unwrap_or_default();
    let mut coverage = None;
    let reason = match printed.command_end {
        CommandEnd::Exited(0) if criterion.kind == ValidationType::CoverageThreshold => {
            let threshold = criterion.threshold.unwrap_or(Decimal::ONE_HUNDRED);
            match find_coverage(criterion, &printed.text) {
                Ok(found) => {
                    coverage = found;
                    not_covered(found, threshold, command)
                }
                Err(error) => Some(error),
            }
        }
        CommandEnd::Exited(0) => None,
        CommandEnd::Exited(code) => Some(format!("`{command}` failed with exit code {code}{last_line}")),
        CommandEnd::Signalled(signal) => Some(format!("`{command}` was ended by signal {signal}{last_line}")),
        CommandEnd::TookTooLong => {
            let seconds = limit.as_secs();
            Some(format!("`{command}` did not end within the {seconds} seconds available{last_line}"))
        }
        CommandEnd::NotRun(error) => Some(format!("`{command}` could not be run: {error}")),
    };
    let output = (!printed.excerpt.is_empty()).then_some(printed.excerpt);
    CriterionResult { kind: criterion.kind, passed: reason.is_none(), reason, output, coverage }
}

fn find_coverage(criterion: &ValidationCriterion, text: &str) -> Result<Option<Decimal>, String> {
    let pattern = CoveragePattern::new(criterion.coverage_pattern.as_deref()).map_err(|e| e.to_string())?;
    Ok(pattern.find(text))
}

fn not_covered(found: Option<Decimal>, threshold: Decimal, command: &str) -> Option<String> {
    match found {
        Some(coverage) if coverage >= threshold => None,
        Some(coverage) => Some(format!("coverage is {coverage}%, below {threshold}%")),
        None => Some(format!("no coverage was found in the output of `{command}`")),
    }
}
