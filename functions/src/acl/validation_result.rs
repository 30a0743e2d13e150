//! `validation_result`: the results of the criteria of a turn (S0 8.10, decision 36).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{ActivityItemType, CriterionResult};
use pilothouse_domain::{CommandId, Timestamp};

use super::Mapping;

/// The turn ends, or the next one starts. The line of activity lists the result of each criterion.
pub fn map(command: CommandId, results: &[CriterionResult], now: Timestamp) -> Mapping {
    let fact = AgentFact::Validated { command, results: results.iter().map(fitting).collect() };
    let met = results.iter().filter(|result| result.passed).count();
    let summary = format!("{met} of {} criteria are met", results.len());
    let detail: Vec<_> = results.iter().map(described).collect();
    Mapping::to(fact).line(ActivityItemType::Notice, &summary, now).detail(&detail.join("\n\n"))
}

/// Keeps the fields that the decision depends on. The journal entry keeps the printed output.
fn fitting(result: &CriterionResult) -> CriterionResult {
    CriterionResult { reason: result.reason.as_deref().map(|r| cut(r, 1000)), output: None, ..result.clone() }
}

fn described(result: &CriterionResult) -> String {
    let word = if result.passed { "met" } else { "not met" };
    let coverage = result.coverage.map(|c| format!(" ({c}%)")).unwrap_or_default();
    let reason = result.reason.as_ref().map(|r| format!(": {r}")).unwrap_or_default();
    let output = result.output.as_ref().map(|o| format!("\n{o}")).unwrap_or_default();
    format!("{} is {word}{coverage}{reason}{output}", result.kind)
}
