//! Tasks of agents, notifications, and raw events.

use pilothouse_api::records::{RawEventOutcome, RawEventView};
use pilothouse_domain::Timestamp;
use pilothouse_domain::agent_api::{AgentTask, AgentTaskPriority};
use pilothouse_domain::announcement::Notification;

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::line;
use super::time;

pub fn tasks(tasks: &[AgentTask], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&["TASK", "PRIORITY", "CREATED", "TAGS", "FOLLOWS"]);
    for task in tasks {
        let paint = match task.task.priority {
            AgentTaskPriority::Urgent => Paint::Red,
            AgentTaskPriority::High => Paint::Yellow,
            AgentTaskPriority::Normal | AgentTaskPriority::Low => Paint::Dim,
        };
        let tags: Vec<_> = task.task.tags.as_slice().iter().map(ToString::to_string).collect();
        let follows = task.task.linked_task_id.as_ref().map(|id| line(id.as_str(), 20)).unwrap_or_default();
        table.row(vec![
            Cell::painted(line(task.task.title.as_str(), 60), Paint::Bold),
            Cell::painted(task.task.priority.to_string(), paint),
            time::ago(task.created_at, now).into(),
            line(&tags.join(", "), 30).into(),
            follows.into(),
        ]);
    }
    table.render(style)
}

pub fn notifications(notifications: &[Notification], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&["WHEN", "WHAT", "SESSION", ""]);
    for notification in notifications {
        let kind = serde_json::to_value(notification.kind).ok();
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default().to_owned();
        let unread = notification.read_at.is_none();
        let session = notification.session_id.map(|id| id.to_string()).unwrap_or_default();
        table.row(vec![
            time::ago(notification.at, now).into(),
            Cell::painted(kind, if unread { Paint::Bold } else { Paint::Dim }),
            Cell::painted(session, Paint::Dim),
            line(&notification.text, 80).into(),
        ]);
    }
    table.render(style)
}

/// A raw event in one line.
pub fn raw_event(event: &RawEventView, style: Style) -> String {
    let outcome = match event.outcome {
        RawEventOutcome::Applied => String::new(),
        RawEventOutcome::Repaired => {
            let rules: Vec<_> = event.repairs.iter().map(ToString::to_string).collect();
            format!(" (repaired: {})", rules.join(", "))
        }
        RawEventOutcome::Deferred => " (deferred)".to_owned(),
        RawEventOutcome::Ignored => {
            format!(" (ignored: {})", event.ignored_reason.as_deref().unwrap_or_default())
        }
        RawEventOutcome::Quarantined => format!(" (quarantined: {})", event.errors.join("; ")),
    };
    let sequence = event.sequence.map_or_else(|| "-".to_owned(), |sequence| sequence.to_string());
    let place = format!("{} {}/{sequence}", event.journal_sequence, event.run);
    let kind = event.event_type.as_deref().unwrap_or("?");
    let head = style.dim(&format!("{place:<12} {}", event.at));
    format!("{head} {}{} {}\n", line(kind, 30), line(&outcome, 80), line(&event.body.to_string(), 120))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{notifications, raw_event, tasks};
    use crate::output::Style;
    use crate::output::fixtures::now;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

    #[test]
    fn tasks_are_listed_with_their_key_fields() {
        let all = serde_json::from_value::<Vec<_>>(json!([
            { "id": ID, "sessionId": ID, "ownerId": "ada", "title": "Cover the parser", "priority": "High",
              "tags": ["tests"], "linkedTaskId": "T-17", "createdAt": "2026-11-21T20:01:00.000Z" },
        ]))
        .unwrap();
        let text = tasks(&all, Style::PLAIN, now());
        assert!(text.contains("Cover the parser  High      60 s ago  tests  T-17"), "{text}");
    }

    #[test]
    fn notifications_show_the_event_and_its_session() {
        let all = serde_json::from_value::<Vec<_>>(json!([
            { "sequence": 4, "kind": "output-ready", "text": "Output waits.", "sessionId": ID,
              "at": "2026-11-21T20:01:00.000Z" },
        ]))
        .unwrap();
        let text = notifications(&all, Style::PLAIN, now());
        assert!(
            text.contains("output-ready") && text.contains("Output waits.") && text.contains(ID),
            "{text}"
        );
    }

    #[test]
    fn raw_event_shows_its_outcome() {
        let event = serde_json::from_value(json!({
            "journalSequence": 9, "runId": ID, "run": 2, "sequence": 4, "at": "2026-11-21T20:01:00.000Z",
            "eventType": "turn_completed", "outcome": "ignored", "ignoredReason": "stale-run", "truncated": false,
            "body": { "type": "turn_completed" },
        }))
        .unwrap();
        let text = raw_event(&event, Style::PLAIN);
        assert!(
            text.contains("9 2/4") && text.contains("turn_completed(ignored: stale-run)")
                || text.contains("(ignored: stale-run)"),
            "{text}"
        );
    }
}
