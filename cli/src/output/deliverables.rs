//! Deliverables (S4).

use std::fmt::Write as _;

use pilothouse_api::records::DeliverablesView;
use pilothouse_domain::value::{DeliverableCounts, DeliverableState};

use super::style::{Paint, Style};
use super::text::line;

pub fn counts(counts: DeliverableCounts) -> String {
    let blocked = if counts.blocked > 0 { format!(", {} blocked", counts.blocked) } else { String::new() };
    format!("{} of {} passed{blocked}", counts.passed, counts.total())
}

pub fn list(shown: &DeliverablesView, with_criteria: bool, style: Style) -> String {
    let mut out = format!("{} {}\n", style.dim("Deliverables"), counts(shown.counts));
    for deliverable in &shown.deliverables {
        let (mark, paint) = match deliverable.status {
            DeliverableState::Passed => ("✓", Paint::Green),
            DeliverableState::Blocked => ("✗", Paint::Red),
            DeliverableState::Pending => ("·", Paint::Dim),
        };
        let (id, what) = (line(&deliverable.id, 40), line(&deliverable.description, 100));
        let _ = writeln!(out, "  {} {} {what}", style.paint(paint, mark), style.dim(&id));
        for criterion in deliverable.acceptance_criteria.iter().filter(|_| with_criteria) {
            let _ = writeln!(out, "      - {}", line(criterion, 160));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::list;
    use crate::output::Style;

    #[test]
    fn each_deliverable_is_shown_with_its_state() {
        let shown = serde_json::from_value(serde_json::json!({
            "pending": 1, "passed": 1, "blocked": 1, "updatedAt": "2026-11-21T20:01:00.000Z",
            "deliverables": [
                { "id": "DL-001", "description": "Log in", "acceptanceCriteria": ["It works"], "status": "passed" },
                { "id": "DL-002", "description": "Log out", "acceptanceCriteria": [], "status": "blocked" },
                { "id": "DL-003", "description": "Stay", "acceptanceCriteria": [], "status": "pending" },
            ],
        }))
        .unwrap();
        assert_eq!(
            list(&shown, true, Style::PLAIN),
            "Deliverables 1 of 3 passed, 1 blocked\n  ✓ DL-001 Log in\n      - It works\n  ✗ DL-002 Log out\n  · DL-003 Stay\n"
        );
    }
}
