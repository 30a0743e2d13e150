//! The live stream, one line per message.

use pilothouse_api::records::ActivityView;
use pilothouse_api::stream::{QueueChange, StatusView, UsageView};
use pilothouse_domain::Timestamp;
use pilothouse_domain::value::ActivityItemType;

use super::sessions::paint;
use super::style::{Paint, Style};
use super::text::{clean, event};
use super::{money, time};

/// A line of the activity stream. Times count from the creation of the session.
pub fn activity(view: &ActivityView, style: Style, created_at: Timestamp) -> String {
    use ActivityItemType as T;
    let item = &view.item;
    let (mark, colour) = match item.kind {
        T::Message => ("●", Paint::Plain),
        T::ToolCallStart => ("▸", Paint::Cyan),
        // The summary begins with the outcome.
        T::ToolCallEnd if item.summary.starts_with("Error") => ("✗", Paint::Red),
        T::ToolCallEnd => ("✓", Paint::Green),
        T::SubAgentSpawn | T::SubAgentComplete => ("◆", Paint::Cyan),
        T::UserQuestion | T::PlanModeExit => ("?", Paint::Yellow),
        T::Notice => ("!", Paint::Yellow),
        T::PlanModeEnter
        | T::UserAnswer
        | T::TodoUpdate
        | T::StatusChange
        | T::MetricsUpdate
        | T::SkillEnabled
        | T::HandoffInitiated => ("·", Paint::Dim),
    };
    // Activity of a subagent is indented.
    let indent = if item.sub_agent_id.is_some() { "  " } else { "" };
    format!(
        "{} {indent}{} {}\n",
        style.dim(&at(item.timestamp, created_at)),
        style.paint(colour, mark),
        clean(&item.summary)
    )
}

pub fn status(view: &StatusView, style: Style) -> String {
    let cause = style.dim(&format!("({})", event(&view.event)));
    format!("{:>8} {} {cause}\n", "", style.paint(paint(view.status), &format!("⇒ {}", view.status)))
}

pub fn usage(view: &UsageView, style: Style) -> String {
    let context = view.metrics.context_window.as_ref().map(|w| format!(", context {} %", w.usage_percent));
    let cost = money::of_cap(view.budget.estimated_cost_usd, view.budget.hard_cap_usd);
    format!("{:>8} {}\n", "", style.dim(&format!("$ spent {cost}{}", context.unwrap_or_default())))
}

pub fn queue(change: &QueueChange, style: Style) -> String {
    format!("{:>8} {}\n", "", style.dim(&format!("✉ {}", event(&change.event))))
}

fn at(then: Timestamp, created_at: Timestamp) -> String {
    format!("{:>8}", format!("+{}", time::clock(then.since(created_at))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{activity, status, usage};
    use crate::output::Style;
    use crate::output::fixtures::session;

    #[test]
    fn each_activity_is_a_line_with_the_time_since_the_start() {
        let view = serde_json::from_value(json!({
            "id": "j7.0", "type": "ToolCallStart", "summary": "Bash: cargo test", "subAgentId": "a1",
            "timestamp": "2026-11-21T20:01:07.000Z",
        }))
        .unwrap();
        assert_eq!(activity(&view, Style::PLAIN, session().created_at), "   +1:07   ▸ Bash: cargo test\n");

        let view =
            serde_json::from_value(json!({ "status": "Paused", "event": "SessionPausedEvent" })).unwrap();
        assert_eq!(status(&view, Style::PLAIN), "         ⇒ Paused (session paused)\n");

        let view = pilothouse_api::stream::UsageView { metrics: session().metrics, budget: session().budget };
        assert_eq!(usage(&view, Style::PLAIN), "         $ spent $0.42 of $5.00 (8.4 %), context 25 %\n");
    }
}
