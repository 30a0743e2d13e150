//! The decision log of a project.

use pilothouse_api::decisions::{LoggedDecisionView, rule_in_words, timeout_rule_in_words, trip_in_words};
use pilothouse_domain::Timestamp;
use pilothouse_domain::brake::BrakeScope;
use pilothouse_domain::decision::{BrakeAction, BrakeActor, KnowledgeAccess, LoggedDecision};
use pilothouse_domain::escalation::VerdictKind;

use super::inbox::{resolver, words};
use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::{text, time};

/// The entries, latest first.
pub fn list(entries: &[LoggedDecisionView], style: Style, now: Timestamp) -> String {
    if entries.is_empty() {
        return "Nothing was decided yet.\n".to_owned();
    }
    let mut table = Table::new(&["WHEN", "AGENT", "WHAT", "DECIDED", "WHY"]);
    for entry in entries {
        let agent = entry.agent_id.map(|id| id.to_string().chars().rev().take(6).collect::<Vec<_>>());
        let agent: String = agent.into_iter().flatten().rev().collect();
        let [what, decided, why] = row(&entry.logged);
        table.row(vec![
            time::ago(entry.at, now).into(),
            Cell::painted(agent, Paint::Dim),
            text::line(&what, 40).into(),
            text::line(&decided, 60).into(),
            text::line(&why, 80).into(),
        ]);
    }
    table.render(style)
}

/// The subject, the decision and the reason.
fn row(logged: &LoggedDecision) -> [String; 3] {
    match logged {
        LoggedDecision::Verdict { tool, verdict, rule, mode, .. } => {
            let decided = match verdict {
                VerdictKind::Allow => "allowed",
                VerdictKind::Ask => "asked a person",
                VerdictKind::Deny => "denied",
            };
            [tool.clone(), decided.to_owned(), format!("{} ({mode})", rule_in_words(rule))]
        }
        LoggedDecision::Decision { kind, state, resolution_type, always_approve, resolved_by, .. } => {
            let decided = resolution_type.map_or_else(|| state.to_string(), |how| how.to_string());
            let always = if *always_approve { ", also all further calls like it" } else { "" };
            let by = resolved_by.as_ref().map(|by| format!("{}{always}", resolver(by))).unwrap_or_default();
            [words(&kind.to_string()), words(&decided), by]
        }
        LoggedDecision::Timeout { kind, timeout, severity, .. } => {
            let raised = severity.map(|severity| format!(" to {severity}")).unwrap_or_default();
            let decided = format!("{}{raised}", timeout.effect);
            [words(&kind.to_string()), decided, timeout_rule_in_words(timeout.rule)]
        }
        LoggedDecision::ControlMode { from, to, .. } => {
            ["control mode".to_owned(), format!("{from} → {to}"), String::new()]
        }
        LoggedDecision::Brake { scope, action, by, reason, .. } => {
            let scope = match scope {
                BrakeScope::All {} => "brake on all sessions".to_owned(),
                BrakeScope::Session { .. } => "brake on a session".to_owned(),
                BrakeScope::Project { .. } => "brake on the project".to_owned(),
                BrakeScope::Workstream { workstream, .. } => format!("brake on workstream {workstream}"),
                BrakeScope::Agent { .. } => "brake on the agent".to_owned(),
            };
            let action = match action {
                BrakeAction::Pulled => "pulled",
                BrakeAction::SessionsReleased => "some sessions released",
                BrakeAction::Released => "released",
            };
            let by = match by {
                BrakeActor::Owner => "by you",
                BrakeActor::Timer => "by its timer",
                BrakeActor::System => "by the system",
            };
            [scope, format!("{action} {by}"), reason.clone()]
        }
        LoggedDecision::Knowledge { access, allowed, workstream, subject, .. } => {
            let what = match access {
                KnowledgeAccess::ReadArtifact => "read an artifact",
                KnowledgeAccess::ReportArtifact => "report an artifact",
                KnowledgeAccess::ReadDecision => "read a decision",
                KnowledgeAccess::Search => "search the knowledge",
                KnowledgeAccess::FlagCoherence => "flag a coherence issue",
            };
            let decided = if *allowed { "allowed" } else { "refused: outside of its workstreams" };
            let subject = subject.clone().unwrap_or_default();
            let why = workstream.as_ref().map(|it| format!("{it}: {subject}")).unwrap_or(subject);
            [what.to_owned(), decided.to_owned(), why]
        }
        LoggedDecision::Guardrail { subject, guardrail, .. } => {
            let why = guardrail.description.as_ref().map(ToString::to_string).unwrap_or_default();
            [format!("guardrail {}", guardrail.name), trip_in_words(*subject, guardrail.action), why]
        }
        LoggedDecision::Trust { change, .. } => {
            let what = words(&change.outcome.to_string());
            ["trust".to_owned(), format!("{} → {}", change.before, change.after), what]
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_api::decisions::LoggedDecisionView;
    use serde_json::json;

    use super::list;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn each_entry_says_what_was_decided_and_why() {
        let entries: Vec<LoggedDecisionView> = serde_json::from_value(json!([
            { "at": now(), "type": "control_mode", "eventId": "0197b1c0-1111-7000-8000-00000000aaaa",
              "from": "adaptive", "to": "orchestrator", "revision": 1 },
            { "at": now(), "type": "verdict", "verdictId": "0197b1c0-1111-7000-8000-00000000aaab",
              "agentId": "0197b1c0-1111-7000-8000-00000000abcd", "toolCallId": "t1", "tool": "Bash",
              "verdict": "ask", "rule": { "type": "alwaysEscalate", "entry": "delete" },
              "effect": { "actionKind": "delete", "severity": "medium", "blastRadius": "small", "confidence": 1.0 },
              "effects": [{ "actionKind": "delete", "severity": "medium", "blastRadius": "small", "confidence": 1.0 }],
              "mode": "adaptive", "modeRevision": 0 },
            { "at": now(), "type": "guardrail", "eventId": "0197b1c0-1111-7000-8000-00000000aaac", "number": 0,
              "level": "input", "subject": "message",
              "guardrail": { "name": "no cards", "action": "block", "description": "Cards are secret" } },
        ]))
        .unwrap();
        let shown = list(&entries, Style::PLAIN, now());
        assert!(shown.contains("adaptive → orchestrator"), "{shown}");
        assert!(shown.contains("delete always needs a person (adaptive)"), "{shown}");
        assert!(shown.contains("00abcd"), "{shown}");
        assert!(shown.contains("guardrail no cards") && shown.contains("refused a message"), "{shown}");
        assert!(shown.contains("Cards are secret"), "{shown}");
    }
}
