//! Decisions of the inbox.

use pilothouse_api::decisions::{
    DecisionBadge, DecisionPage, DecisionView, rule_in_words, timeout_rule_in_words, trip_in_words,
};
use pilothouse_domain::Timestamp;
use pilothouse_domain::decision::{
    AutomaticRecovery, DecisionOption, DecisionSession, DecisionState, DecisionStatus, DecisionSubject,
    OnTimeout, OrphanAction, OrphanStage, Resolution, ResolutionDelivery, ResolutionType, ResolvedBy,
};
use pilothouse_domain::escalation::TripSubject;

use super::Style;
use super::brakes::scope_in_words;
use super::requests::question;
use super::style::Paint;
use super::text::{clean, count, line};
use super::time;

/// The decisions in their order, and how many are pending in sum.
pub fn list(page: &DecisionPage, state: Option<DecisionStatus>, style: Style, now: Timestamp) -> String {
    let mut out = String::new();
    for item in &page.items {
        out.push_str(&decision(item, style, now));
    }
    if page.items.is_empty() {
        let none = match state {
            None | Some(DecisionStatus::Pending) => "Nothing waits for you.\n".to_owned(),
            Some(other) => format!("There are no {other} decisions.\n"),
        };
        out.push_str(&none);
    }
    if page.next_cursor.is_some() {
        out.push_str(&style.dim("There are more; see --limit.\n"));
    }
    if let Some(counts) = page.counts.as_ref().filter(|counts| counts.pending > 0) {
        let kinds: Vec<_> =
            counts.by_kind.iter().map(|(kind, number)| format!("{number} {}", words(kind))).collect();
        let partial = if counts.is_partial { "at least " } else { "" };
        let sum = format!("{partial}{} pending: {}\n", count(counts.pending, "decision"), kinds.join(", "));
        out.push_str(&style.dim(&sum));
    }
    out
}

pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// One decision with its content and how to resolve it, or what became of it.
pub fn decision(decision: &DecisionView, style: Style, now: Timestamp) -> String {
    let id = decision.id.to_string();
    let short: String = id.chars().take(8).collect();
    let kind = words(&decision.subject.kind().to_string());
    let severity = decision.severity.map(|severity| format!(", {severity} severity")).unwrap_or_default();
    let expires = decision
        .expires_at
        .filter(|_| decision.state == DecisionState::Pending)
        .map(|at| time::until(at, now));
    let expires =
        expires.map(|at| format!(", expires {at}")).or_else(|| due(decision, now)).unwrap_or_default();
    let mut facts = vec![format!("{short}  {kind}{severity}")];
    facts.extend(decision.badges.iter().map(|badge| badge_in_words(*badge).to_string()));
    let head = style.paint(Paint::Yellow, &facts.join(", "));
    let source = style.dim(&format!(
        "({}, {}{expires})",
        line(source_name(decision), 60),
        time::ago(decision.created_at, now)
    ));
    let last = match outcome(&decision.state, now) {
        Some(outcome) => format!("  {outcome}\n"),
        None => format!("  {} {}\n", style.dim("→"), hint(decision, &short)),
    };
    format!("{head} {source}\n{}{last}", content(&decision.subject, decision.session.as_ref(), style))
}

/// The session of a decision, or what it is about otherwise.
pub(super) fn source_name(decision: &DecisionView) -> &str {
    decision.session.as_ref().map_or("emergency brake", |session| session.session_name.as_str())
}

const fn badge_in_words(badge: DecisionBadge) -> &'static str {
    match badge {
        DecisionBadge::TimedOut => "timed out",
        DecisionBadge::AgentKilled => "agent killed",
    }
}

/// The timeout of a decision of a project.
fn due(decision: &DecisionView, now: Timestamp) -> Option<String> {
    if let DecisionState::Orphaned { stage, .. } = &decision.state {
        return Some(match stage {
            OrphanStage::New {} | OrphanStage::Triage {} => ", pending triage".to_owned(),
            OrphanStage::Grace { ends_at, then } => {
                let action = match then {
                    OrphanAction::Triage => "pending triage",
                    OrphanAction::Cancel => "is cancelled",
                    OrphanAction::Reassign => "goes to another agent",
                };
                format!(", {action} {}", time::until(*ends_at, now))
            }
            OrphanStage::Reassigned { reassigned_to } => format!(", taken over by agent {reassigned_to}"),
        });
    }
    let (tick, action) = (decision.due_tick?, decision.on_timeout?);
    if decision.state != DecisionState::Pending {
        return None;
    }
    let at = decision.due_at.map(|at| format!(" {}", time::until(at, now))).unwrap_or_default();
    let action = match action {
        OnTimeout::AutoRecommend => "resolves without you",
        OnTimeout::Escalate => "escalates",
        OnTimeout::Cancel => "is cancelled",
        OnTimeout::Extend => "is extended",
    };
    Some(format!(", {action} at tick {tick}{at}"))
}

pub(super) fn content(subject: &DecisionSubject, session: Option<&DecisionSession>, style: Style) -> String {
    match subject {
        DecisionSubject::Question { questions, .. } => questions.iter().map(|q| question(q, style)).collect(),
        DecisionSubject::Option { question, options, assessment, .. } => {
            let recommended = assessment.as_ref().and_then(|it| it.recommended_option_id.as_deref());
            format!("  {}\n{}", style.bold(&clean(question)), numbered(options, recommended, style))
        }
        DecisionSubject::ToolApproval { approval, .. } => {
            let why = approval.verdict.as_ref().map(|verdict| {
                style.dim(&format!("  because: {}\n", line(&rule_in_words(&verdict.rule), 160)))
            });
            format!(
                "  {} {}\n{}",
                style.bold(&line(&approval.tool_name, 80)),
                line(&approval.input, 200),
                why.unwrap_or_default()
            )
        }
        DecisionSubject::Plan { version, .. } => {
            let session = session.map(|session| session.session_id.to_string()).unwrap_or_default();
            format!("  Revision {version}; read it with `pilothouse plan show {session}`\n")
        }
        DecisionSubject::OutputReview { output, .. } => {
            let tests = if output.all_tests_passing { "pass" } else { "do not all pass" };
            let counted =
                format!("  {} changed; its tests {tests}\n", count(output.files_changed as usize, "file"));
            let result = output.result.iter().map(|it| format!("  result: {}\n", line(&it.to_string(), 200)));
            let violations = output.violations.iter().map(|it| {
                let text = format!("{} {}", it.place(), it.message);
                format!("  {} {}\n", style.bold("violates its schema:"), line(&text, 160))
            });
            let guardrails = output.guardrails.iter().map(|trip| {
                let why = trip.description.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                let predicate = trip_in_words(TripSubject::Output, trip.action);
                format!(
                    "  {} {}\n",
                    style.bold("guardrail:"),
                    line(&format!("{} {predicate}{why}", trip.name), 160)
                )
            });
            std::iter::once(counted).chain(result).chain(violations).chain(guardrails).collect()
        }
        DecisionSubject::BrakeRelease { brake_id, scope, brake_reason } => format!(
            "  Release brake {brake_id} on {}\n  pulled because: {}\n",
            scope_in_words(scope),
            line(brake_reason, 160)
        ),
        DecisionSubject::CrashRecovery {
            failure_reason,
            failure_message,
            consecutive_crashes,
            options,
            automatic,
        } => {
            let message = failure_message.as_deref().map(|why| format!(": {}", line(why, 160)));
            let automatic = automatic
                .map(|AutomaticRecovery { at, recovery }| format!("  without you: {recovery} at {at}\n"));
            format!(
                "  {}\n  crash {consecutive_crashes} in a row\n{}{}",
                style.bold(&format!("{failure_reason}{}", message.unwrap_or_default())),
                automatic.unwrap_or_default(),
                numbered(options, None, style)
            )
        }
        DecisionSubject::HandoffFailed { obstacle, options, .. } => {
            format!("  {}\n{}", style.bold(&line(obstacle, 160)), numbered(options, None, style))
        }
        DecisionSubject::Autonomy { action_kind, verdicts, lower_bound } => format!(
            "  {}\n  approved {} of {} times; the rate is above {lower_bound} with 95 % confidence\n",
            style.bold(&format!("Let the agent do without asking: {action_kind}")),
            verdicts.approved,
            verdicts.decided,
        ),
        DecisionSubject::CoherenceReview {
            issue_id,
            issue_title,
            category,
            explanation,
            suggested_resolution,
            options,
            ..
        } => {
            let suggestion =
                suggested_resolution.as_deref().map(|it| format!("  suggested: {}\n", line(it, 300)));
            format!(
                "  {}\n  {category}: {}\n{}  see `pilothouse coherence show {issue_id}`\n{}",
                style.bold(&line(issue_title, 160)),
                line(explanation, 300),
                suggestion.unwrap_or_default(),
                numbered(options, None, style)
            )
        }
    }
}

fn numbered(options: &[DecisionOption], recommended: Option<&str>, style: Style) -> String {
    let line_of = |(at, option): (usize, &DecisionOption)| {
        let mark = if recommended == Some(option.id.as_str()) { " (recommended)" } else { "" };
        let texts = [option.option.description.as_deref(), option.tradeoffs.as_deref()];
        let meaning: Vec<_> = texts.into_iter().flatten().map(|text| line(text, 100)).collect();
        let meaning = if meaning.is_empty() { String::new() } else { format!(": {}", meaning.join("; ")) };
        format!("    {}. {}{mark}{}\n", at + 1, line(&option.option.label, 80), style.dim(&meaning))
    };
    options.iter().enumerate().map(line_of).collect()
}

fn hint(decision: &DecisionView, short: &str) -> String {
    let needs_reason = decision.subject.verdict().is_some_and(|verdict| verdict.requires_rationale);
    let how = decision.resolutions.iter().map(|resolution| match resolution {
        ResolutionType::Answer => "answer \"…\"",
        ResolutionType::ChooseOption => "choose NUMBER",
        ResolutionType::Approve if needs_reason => "approve --rationale \"…\"",
        ResolutionType::Approve => "approve",
        ResolutionType::Modify if needs_reason => "modify '{…}' --rationale \"…\"",
        ResolutionType::Modify => "modify '{…}'",
        ResolutionType::Reject if decision.session.is_none() => "reject",
        ResolutionType::Reject => "reject --rationale \"…\"",
        ResolutionType::Dismiss => "dismiss",
    });
    format!("pilothouse resolve {short} {}", how.collect::<Vec<_>>().join(" | "))
}

pub fn outcome(state: &DecisionState, now: Timestamp) -> Option<String> {
    let (ruling, note) = match state {
        DecisionState::Pending | DecisionState::Orphaned { .. } => return None,
        DecisionState::Suspended { brake_id, since } => {
            return Some(format!("suspended by brake {brake_id} {}", time::ago(*since, now)));
        }
        DecisionState::Expired { ended_at } => return Some(format!("expired {}", time::ago(*ended_at, now))),
        DecisionState::Cancelled { ended_at, reason } => {
            let reason = serde_json::to_value(reason).ok();
            let reason = reason.as_ref().and_then(|reason| reason.as_str()).map(words).unwrap_or_default();
            return Some(format!("cancelled {} ({reason})", time::ago(*ended_at, now)));
        }
        DecisionState::Resolving { ruling } => (ruling, "; the agent has not received it yet"),
        DecisionState::Resolved { ruling, delivery } | DecisionState::AutoResolved { ruling, delivery } => {
            (ruling, delivered(*delivery))
        }
    };
    let what = match &ruling.resolution {
        Resolution::Answer { answers } => {
            let texts: Vec<_> = answers.iter().map(|answer| line(&answer.answer, 80)).collect();
            format!("answered: {}", texts.join("; "))
        }
        Resolution::ChooseOption { chosen_option_id, rationale } => {
            format!("option {} chosen{}", line(chosen_option_id, 40), because(rationale.as_deref()))
        }
        Resolution::Approve { always_approve, rationale } => {
            let scope = if *always_approve { " for the whole session" } else { "" };
            format!("approved{scope}{}", because(rationale.as_deref()))
        }
        Resolution::Modify { modified_input, rationale } => {
            let input = line(&modified_input.to_string(), 120);
            format!("approved with the input {input}{}", because(rationale.as_deref()))
        }
        Resolution::Reject { rationale: None } => "rejected".to_owned(),
        Resolution::Dismiss => "dismissed".to_owned(),
        Resolution::Reject { rationale: Some(why) } => format!("rejected: {}", line(why, 80)),
    };
    let by = resolver(&ruling.resolved_by);
    Some(format!("{what} {by} {}{note}", time::ago(ruling.resolved_at, now)))
}

fn because(rationale: Option<&str>) -> String {
    rationale.map(|why| format!(" ({})", line(why, 80))).unwrap_or_default()
}

const fn delivered(delivery: Option<ResolutionDelivery>) -> &'static str {
    match delivery {
        Some(ResolutionDelivery::Undelivered) => "; the agent never received it",
        Some(ResolutionDelivery::Message) => "; sent to the agent as a message",
        Some(ResolutionDelivery::Command) | None => "",
    }
}

pub(super) fn resolver(by: &ResolvedBy) -> String {
    match by {
        ResolvedBy::Owner { id } => format!("by {id}"),
        ResolvedBy::DefaultAnswer => "by the default answer".to_owned(),
        ResolvedBy::OrphanPolicy => "by the policy for orphaned decisions".to_owned(),
        ResolvedBy::RecoveryPolicy => "by the policy for crash recovery".to_owned(),
        ResolvedBy::Timeout { rule } => format!("by the {}", timeout_rule_in_words(*rule)),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_api::decisions::DecisionPage;
    use serde_json::json;

    use super::{decision as show, list};
    use crate::output::Style;
    use crate::output::fixtures::{decision, now};

    #[test]
    fn orphan_shows_its_badge_what_follows_and_how_to_dismiss_it() {
        let orphan = decision(&json!({
            "kind": "question", "requestId": "q1", "questions": [{ "question": "Which store?" }],
            "severity": "high", "badges": ["agentKilled"], "resolutions": ["answer", "dismiss"], "state": "orphaned",
            "since": "2026-11-21T20:01:50.000Z", "reason": "session_cancelled", "stage": "grace",
            "endsAt": "2026-11-21T20:02:10.000Z", "then": "cancel",
        }));
        let shown = show(&orphan, Style::PLAIN, now());
        assert!(
            shown.starts_with(
                "92944b5c  question, high severity, agent killed (demo, 30 s ago, is cancelled in 10 s)"
            ),
            "{shown}"
        );
        assert!(shown.ends_with("→ pilothouse resolve 92944b5c answer \"…\" | dismiss\n"), "{shown}");
    }

    #[test]
    fn release_of_a_brake_shows_its_scope_and_reason() {
        let mut release = decision(&json!({
            "kind": "brake_release", "brakeId": "0197b1c0-9999-7000-8000-00000000cccc",
            "scope": { "type": "all" }, "brakeReason": "It deletes the wrong files", "severity": "high",
            "resolutions": ["approve", "reject"], "state": "pending",
        }));
        release.session = None;
        assert_eq!(
            show(&release, Style::PLAIN, now()),
            "\
92944b5c  brake release, high severity (emergency brake, 30 s ago)
  Release brake 0197b1c0-9999-7000-8000-00000000cccc on all sessions
  pulled because: It deletes the wrong files
  → pilothouse resolve 92944b5c approve | reject
"
        );
    }

    #[test]
    fn inbox_shows_content_and_the_command_that_resolves() {
        let call = decision(&json!({
            "kind": "tool_approval", "requestId": "t1", "question": "May it?", "toolName": "Bash",
            "input": "{\"command\":\"ls\"}", "allow": "Allow", "deny": "Deny", "severity": "high",
            "blastRadius": "unknown", "expiresAt": "2026-11-22T20:02:00.000Z",
            "resolutions": ["approve", "reject"], "state": "pending",
        }));
        let page = DecisionPage { items: vec![call], next_cursor: None, counts: None };
        assert_eq!(
            list(&page, None, Style::PLAIN, now()),
            "\
92944b5c  tool approval, high severity (demo, 30 s ago, expires in 24 h)
  Bash {\"command\":\"ls\"}
  → pilothouse resolve 92944b5c approve | reject --rationale \"…\"
"
        );
        let empty = DecisionPage { items: Vec::new(), next_cursor: None, counts: None };
        assert_eq!(list(&empty, None, Style::PLAIN, now()), "Nothing waits for you.\n");
    }

    #[test]
    fn ended_decision_shows_its_winner() {
        let plan = decision(&json!({
            "kind": "plan", "requestId": "p1", "version": 2, "resolutions": ["approve", "reject"],
            "state": "resolved", "resolution": { "resolutionType": "reject", "rationale": "Too much" },
            "resolvedBy": { "type": "owner", "id": "local" }, "resolvedAt": "2026-11-21T20:01:50.000Z",
            "delivery": "message",
        }));
        let shown = show(&plan, Style::PLAIN, now());
        let outcome = shown.lines().last().unwrap();
        assert_eq!(outcome, "  rejected: Too much by local 10 s ago; sent to the agent as a message");
    }
}
