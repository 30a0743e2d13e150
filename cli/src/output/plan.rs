use pilothouse_domain::Timestamp;
use pilothouse_domain::value::{PlanStatus, SessionPlan};

use super::style::{Paint, Style};
use super::text::clean;
use super::time;

pub fn show(plan: &SessionPlan, style: Style, now: Timestamp) -> String {
    let (status, paint) = match plan.status {
        PlanStatus::Draft => ("draft", Paint::Dim),
        PlanStatus::PendingApproval => ("waits for your decision", Paint::Yellow),
        PlanStatus::Approved => ("approved", Paint::Green),
        PlanStatus::Rejected => ("rejected; the agent revises it", Paint::Red),
    };
    let since = style.dim(&format!("({})", time::ago(plan.approved_at.unwrap_or(plan.created_at), now)));
    let text = match &plan.content {
        Some(content) => clean(content.as_str()).trim_end().to_owned(),
        None => style.dim("(the agent showed no text)"),
    };
    format!("Plan, revision {}: {} {since}\n\n{text}\n", plan.version, style.paint(paint, status))
}

#[cfg(test)]
mod tests {
    use super::show;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn plan_shows_its_status() {
        let plan = serde_json::from_value(serde_json::json!({
            "content": "1. Look\n2. Leap\n", "status": "PendingApproval", "requiresApproval": true,
            "createdAt": "2026-11-21T20:01:00.000Z", "approvedAt": null, "version": 2,
        }))
        .unwrap();
        assert_eq!(
            show(&plan, Style::PLAIN, now()),
            "Plan, revision 2: waits for your decision (60 s ago)\n\n1. Look\n2. Leap\n"
        );
    }
}
