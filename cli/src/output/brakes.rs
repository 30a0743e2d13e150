//! Emergency brakes.

use pilothouse_api::brakes::{BrakeView, BrakedSession};
use pilothouse_domain::Timestamp;
use pilothouse_domain::brake::{BrakeScope, HoldStage, ReleasedBy};

use super::sessions::short_id;
use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::line;
use super::time;

/// Brakes with their sessions.
pub fn details(brakes: &[BrakeView], style: Style, now: Timestamp) -> String {
    brakes.iter().map(|brake| detail(brake, style, now)).collect::<Vec<_>>().join("\n")
}

/// A brake with the progress of its sessions.
pub fn detail(brake: &BrakeView, style: Style, now: Timestamp) -> String {
    let summary = &brake.summary;
    let scope = scope_in_words(&summary.scope);
    let state = match (summary.released, summary.release_at) {
        (Some(released), _) => {
            let by = match released.by {
                ReleasedBy::Owner => "by you",
                ReleasedBy::Timer => "by its timer",
                ReleasedBy::Decision => "by a decision",
            };
            format!("released {by} {}", time::ago(released.at, now))
        }
        (None, Some(at)) => format!("in force until {at}"),
        (None, None) => match summary.release_decision_id {
            Some(id) => format!("in force until you release it, or approve decision {id}"),
            None => "in force until you release it".to_owned(),
        },
    };
    let mut out = format!(
        "Brake {} ({}) on {scope}, pulled {}: {state}\n{}\n{}\n",
        summary.id,
        summary.behavior,
        time::ago(summary.pulled_at, now),
        line(&summary.reason, 200),
        brake.progress,
    );
    if brake.sessions.is_empty() {
        return out;
    }
    let mut table = Table::new(&["SESSION", "NAME", "STATUS", "STOP"]);
    for session in &brake.sessions {
        table.row(vec![
            short_id(session.session_id).into(),
            line(&session.name, 40).into(),
            session.status.to_string().into(),
            stage(session),
        ]);
    }
    out.push_str(&table.render(style));
    out
}

/// The sessions that a brake stops.
pub(super) fn scope_in_words(scope: &BrakeScope) -> String {
    match scope {
        BrakeScope::All {} => "all sessions".to_owned(),
        BrakeScope::Session { session_id } => format!("session {}", short_id(*session_id)),
        BrakeScope::Project { project_id } => format!("project {project_id}"),
        BrakeScope::Workstream { workstream, .. } => format!("workstream {workstream}"),
        BrakeScope::Agent { agent_id } => format!("agent {agent_id}"),
    }
}

fn stage(session: &BrakedSession) -> Cell {
    let ended =
        if session.escalated && session.stage == HoldStage::Confirmed { ", process ended" } else { "" };
    let paint = match session.stage {
        HoldStage::Confirmed | HoldStage::Released => Paint::Green,
        HoldStage::Escalated | HoldStage::Unreachable => Paint::Red,
        HoldStage::Requested | HoldStage::Acknowledged => Paint::Yellow,
    };
    Cell::painted(format!("{}{ended}", session.stage), paint)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::detail;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn brake_shows_its_reason_and_the_progress_of_each_session() {
        let brake = serde_json::from_value(json!({
            "id": "0197b1c0-9999-7000-8000-00000000cccc", "scope": { "type": "all" }, "behavior": "pause",
            "reason": "It deletes the wrong files", "initiatedBy": "ada", "pulledAt": "2026-11-21T20:01:55.000Z",
            "sessionCount": 2, "confirmedCount": 1, "progress": "1 of 2 confirmed",
            "sessions": [
                { "sessionId": "0197b1c0-1111-7000-8000-00000000aaaa", "name": "one", "status": "Paused",
                  "stage": "confirmed", "escalated": true },
                { "sessionId": "0197b1c0-2222-7000-8000-00000000bbbb", "name": "two", "status": "Pausing",
                  "stage": "unreachable", "escalated": false },
            ],
            "version": 1,
        }))
        .unwrap();
        assert_eq!(
            detail(&brake, Style::PLAIN, now()),
            "\
Brake 0197b1c0-9999-7000-8000-00000000cccc (pause) on all sessions, pulled 5 s ago: in force until you release it
It deletes the wrong files
1 of 2 confirmed
SESSION        NAME  STATUS   STOP
0197b1c0-1111  one   Paused   confirmed, process ended
0197b1c0-2222  two   Pausing  unreachable
"
        );
    }
}
