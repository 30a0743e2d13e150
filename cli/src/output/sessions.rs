use std::time::Duration;

use pilothouse_api::sessions::SessionSummary;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{AgentSessionId, Timestamp};

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::line;
use super::{money, time};

/// The length of the shown prefix of an id. It covers the creation time in milliseconds, which distinguishes most ids.
const SHORT_ID: usize = 13;

/// A prefix of an id that commands accept for the session.
pub fn short_id(id: AgentSessionId) -> String {
    id.to_string().chars().take(SHORT_ID).collect()
}

pub fn paint(status: AgentSessionStatus) -> Paint {
    use AgentSessionStatus as S;
    match status {
        S::Running => Paint::Cyan,
        S::WaitingForInput | S::WaitingForApproval | S::Paused | S::Interrupted | S::ContextExhausted => {
            Paint::Yellow
        }
        S::Failed => Paint::Red,
        S::Completed | S::Idle => Paint::Green,
        S::Queued | S::Interrupting | S::Pausing | S::Resuming | S::Cancelling | S::Cancelled => Paint::Dim,
    }
}

fn note(session: &SessionSummary) -> String {
    let mut notes = Vec::new();
    if session.has_pending_review {
        notes.push("review".to_owned());
    }
    if session.unreachable {
        notes.push("unreachable".to_owned());
    }
    if session.hibernated {
        notes.push("hibernated".to_owned());
    }
    if let Some(outcome) = session.outcome.as_deref().filter(|outcome| *outcome != "cancelled") {
        notes.push(outcome.to_owned());
    }
    notes.extend(session.labels.iter().map(|(key, value)| format!("{key}={value}")));
    line(&notes.join(", "), 40)
}

pub fn list(sessions: &[SessionSummary], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&[
        "SESSION", "STATUS", "NAME", ">SPENT", ">CAP", ">CONTEXT", ">TURNS", ">TIME", "STARTED", "NOTE",
    ]);
    for session in sessions {
        let context =
            session.context_window_usage_percent.as_ref().map(|p| format!("{p} %")).unwrap_or_default();
        table.row(vec![
            Cell::painted(short_id(session.id), Paint::Bold),
            Cell::painted(session.status.to_string(), paint(session.status)),
            line(&session.name, 32).into(),
            money::usd(session.total_cost_usd).into(),
            money::usd(session.hard_cap_usd).into(),
            context.into(),
            session.turn_count.to_string().into(),
            time::clock(Duration::from_secs(session.elapsed_seconds)).into(),
            time::ago(session.created_at, now).into(),
            Cell::painted(note(session), Paint::Dim),
        ]);
    }
    table.render(style)
}

#[cfg(test)]
mod tests {
    use super::list;
    use crate::output::Style;
    use crate::output::fixtures::{now, summary};

    #[test]
    fn sessions_are_listed_in_aligned_columns() {
        let mut second = summary();
        second.name = "a much longer name than the other one".into();
        second.has_pending_review = true;
        second.unreachable = true;
        second.context_window_usage_percent = Some("47.5".into());
        second.labels.insert("team".into(), "core".into());
        assert_eq!(
            list(&[summary(), second], Style::PLAIN, now()),
            "\
SESSION        STATUS  NAME                              SPENT    CAP  CONTEXT  TURNS  TIME  STARTED    NOTE
0197b1c0-1111  Idle    demo                              $0.42  $5.00               3  1:05  2 min ago
0197b1c0-1111  Idle    a much longer name than the oth…  $0.42  $5.00   47.5 %      3  1:05  2 min ago  review, unreachable, team=core
"
        );
    }
}
