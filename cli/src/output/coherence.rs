//! Coherence issues.

use std::fmt::Write as _;

use pilothouse_api::coherence::{CoherenceAudit, CoherenceIssueView, CoherenceReport};
use pilothouse_domain::coherence::{
    CoherenceState, CoherenceStatus, ComparisonEngine, EmbeddingFailure, EmbeddingUse, IssueReview,
    IssueSource, ReviewFailure,
};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::{Timestamp, UserId};

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::{text, time};

/// Characters of an id. They differ already at the beginning, because ids of issues are hashes.
const ID: usize = 8;

const fn paint_severity(severity: Severity) -> Paint {
    match severity {
        Severity::Critical | Severity::High => Paint::Red,
        Severity::Medium => Paint::Yellow,
        Severity::Low | Severity::Warning => Paint::Dim,
    }
}

const fn paint_state(state: CoherenceState) -> Paint {
    match state {
        CoherenceState::Open | CoherenceState::Confirmed => Paint::Yellow,
        CoherenceState::Resolved => Paint::Green,
        CoherenceState::Dismissed => Paint::Dim,
    }
}

fn joined<T: ToString>(parts: &[T]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Issues, one a line.
pub fn list(issues: &[CoherenceIssueView], style: Style, now: Timestamp) -> String {
    if issues.is_empty() {
        return "No coherence issues\n".to_owned();
    }
    let mut table = Table::new(&["ID", "SEVERITY", "CATEGORY", "STATE", "WORKSTREAMS", "TITLE", "FOUND"]);
    for issue in issues {
        let (finding, state) = (&issue.finding, issue.status.state());
        table.row(vec![
            issue.id.to_string().chars().take(ID).collect::<String>().into(),
            Cell::painted(finding.severity.to_string(), paint_severity(finding.severity)),
            finding.category.to_string().into(),
            Cell::painted(state.to_string(), paint_state(state)),
            text::line(&joined(&finding.affected_workstreams), 30).into(),
            text::line(&finding.title, 60).into(),
            time::ago(issue.detected_at, now).into(),
        ]);
    }
    table.render(style)
}

/// An issue.
pub fn show(issue: &CoherenceIssueView, style: Style, now: Timestamp) -> String {
    let finding = &issue.finding;
    let mut out = format!("{}\n{}\n\n", style.bold(&finding.title), finding.description);
    let found = time::ago(issue.detected_at, now);
    let _ = writeln!(
        out,
        "{}  {} {}, found {found} by {}",
        issue.id,
        finding.severity,
        finding.category,
        source(&finding.source)
    );
    let _ = writeln!(out, "Workstreams: {}", joined(&finding.affected_workstreams));
    if !finding.affected_artifact_ids.is_empty() {
        let _ = writeln!(out, "Artifacts: {}", joined(&finding.affected_artifact_ids));
    }
    let _ = writeln!(out, "{}", status(&issue.status));
    if let Some(review) = &issue.review {
        out.push_str(&reviewed(review, now));
    }
    out
}

/// The review by a model, in lines.
fn reviewed(review: &IssueReview, now: Timestamp) -> String {
    match review {
        IssueReview::Requested { at } => format!("Review requested {}\n", time::ago(*at, now)),
        IssueReview::Failed { attempts, failure, .. } => {
            let why = match failure {
                ReviewFailure::Unavailable => "the model could not be reached",
                ReviewFailure::InvalidAnswer => "the model gave no valid answer",
                ReviewFailure::SpendingCap => "the spending cap of the project is reached",
            };
            let times = if *attempts > 1 { format!(" ({attempts} times)") } else { String::new() };
            format!("Not confirmed: {why}{times}; `pilothouse coherence audit` requests another review\n")
        }
        IssueReview::Confirmed { model, explanation, suggested_resolution, .. } => {
            let suggestion =
                suggested_resolution.as_ref().map(|it| format!("Suggested: {}\n", text::line(it, 400)));
            format!(
                "Confirmed by {model}: {}\n{}",
                text::line(explanation, 400),
                suggestion.unwrap_or_default()
            )
        }
        IssueReview::FalsePositive { model, explanation, .. } => {
            format!("No issue according to {model}: {}\n", text::line(explanation, 400))
        }
    }
}

fn source(source: &IssueSource) -> String {
    match source {
        IssueSource::Structural { check } => format!("the check {check}"),
        IssueSource::Similarity { engine: ComparisonEngine::Lexical, percent } => {
            format!("comparing texts ({percent} % similar)")
        }
        IssueSource::Similarity { engine: ComparisonEngine::Embeddings, percent } => {
            format!("comparing texts by embeddings ({percent} % similar)")
        }
        IssueSource::Alignment { decision_id, percent, .. } => {
            format!("comparing texts with decision {decision_id} ({percent} % similar)")
        }
        IssueSource::Agent { agent_id, .. } => format!("agent {agent_id}"),
        IssueSource::Person { id } => id.to_string(),
    }
}

fn status(status: &CoherenceStatus) -> String {
    match status {
        CoherenceStatus::Open => "Open".to_owned(),
        CoherenceStatus::Confirmed { by, .. } => format!("Confirmed by {by}"),
        CoherenceStatus::Dismissed { by, reason, .. } => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let by = by.as_ref().map_or("the model", UserId::as_str);
            format!("Dismissed by {by}{reason}")
        }
        CoherenceStatus::Resolved { by, resolution, .. } => format!("Resolved by {by}: {resolution}"),
    }
}

/// The score of a project.
pub fn score(report: &CoherenceReport, style: Style) -> String {
    let (now, before) = (report.score.points(), report.score_before.points());
    let mut out =
        format!("{} of 100, {} (ten ticks ago: {before})\n", style.bold(&now.to_string()), report.trend);
    let open = &report.open_issues;
    let counts = [
        ("critical", open.critical),
        ("high", open.high),
        ("medium", open.medium),
        ("low", open.low),
        ("warning", open.warning),
    ];
    for (severity, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        let _ = writeln!(out, "{count} {severity}");
    }
    if let Some(reviews) = &report.reviews {
        let tokens = reviews.input_tokens.saturating_add(reviews.output_tokens);
        let _ =
            writeln!(out, "{} reviews by a model: {tokens} tokens, ${}", reviews.reviews, reviews.spent_usd);
    }
    if let Some(EmbeddingUse { texts, tokens, unpriced_tokens, spent_usd }) = &report.embeddings {
        let cost = match unpriced_tokens {
            0 => format!("${spent_usd}"),
            _ if unpriced_tokens == tokens => "at an unknown price".to_owned(),
            _ => format!("${spent_usd}, and {unpriced_tokens} of the tokens at an unknown price"),
        };
        let _ = writeln!(out, "{texts} texts embedded: {tokens} tokens, {cost}");
    }
    out
}

/// The result of an audit.
pub fn audit(audit: &CoherenceAudit) -> String {
    if audit.is_too_large {
        return "Nothing was compared: the project has too many artifacts\n".to_owned();
    }
    let CoherenceAudit { compared_artifacts, skipped_artifacts, similar_pairs, raised_issues, .. } = audit;
    let engine = match (audit.engine, audit.fallback) {
        (ComparisonEngine::Embeddings, _) => " by embeddings".to_owned(),
        (ComparisonEngine::Lexical, None) => String::new(),
        (ComparisonEngine::Lexical, Some(failure)) => {
            let why = match failure {
                EmbeddingFailure::Unavailable => "could not be reached in time",
                EmbeddingFailure::Refused => "refused the request",
                EmbeddingFailure::SpendingCap => "was not asked: the spending cap of the project is reached",
            };
            format!(" by their words, because the embedding model {why}")
        }
    };
    let decisions = match audit.compared_decisions {
        0 => String::new(),
        count => {
            format!("{count} decisions compared, {} artifacts may not fit one\n", audit.misaligned_pairs)
        }
    };
    let requested = match audit.requested_reviews {
        0 => String::new(),
        count => format!("{count} issues wait for the review of a model\n"),
    };
    format!(
        "{compared_artifacts} artifacts compared{engine}, {skipped_artifacts} without text\n\
         {decisions}{similar_pairs} similar pairs, {raised_issues} new issues\n\
         {requested}Contradictions and gaps are not found by comparing texts\n"
    )
}
