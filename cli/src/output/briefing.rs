//! The briefing of a project.

use std::fmt::Write as _;

use pilothouse_api::briefing::{Briefing, BriefingLimit, BriefingSection};
use pilothouse_domain::Timestamp;

use super::style::{Paint, Style};
use super::text::{count, line};
use super::time;

/// Prints the sections in their order, and below each sentence the path of its latest event.
pub fn show(briefing: &Briefing, style: Style, now: Timestamp) -> String {
    let mut out =
        format!("{}  since {}\n", style.bold(&line(&briefing.name, 80)), time::ago(briefing.since, now));
    if let Some(at) = briefing.archived_at {
        let _ = writeln!(out, "Archived {}.", time::ago(at, now));
    }
    let sections = [
        ("Attention", Paint::Yellow, &briefing.attention, "Nothing needs your attention."),
        ("Finished", Paint::Green, &briefing.finished, "Nothing was finished."),
        ("Risks", Paint::Red, &briefing.risks, "No risks."),
        ("Automatic decisions", Paint::Cyan, &briefing.automatic_decisions, "No automatic decisions."),
    ];
    for (heading, paint, section, nothing) in sections {
        if section.count == 0 {
            let _ = writeln!(out, "\n{nothing}");
        } else {
            let _ = writeln!(out, "\n{} ({})", style.paint(paint, heading), section.count);
            sentences(&mut out, section, style, now);
        }
    }
    let cost = &briefing.cost;
    let at_least = if cost.is_partial { "at least " } else { "" };
    let cap = cost.spending_cap.map(|cap| format!(", cap ${}", cap.usd())).unwrap_or_default();
    let heading = style.bold("Cost");
    let _ = writeln!(out, "\n{heading}: {at_least}${}, ${} in total{cap}", cost.spent_usd, cost.total_usd);
    sentences(&mut out, &cost.section, style, now);
    for limit in &briefing.incomplete {
        let what = match limit {
            BriefingLimit::Decisions => "only the first 1,000 decisions of the inbox were read",
            BriefingLimit::DecisionLog => "only the latest 1,000 entries of the decision log were read",
            BriefingLimit::Sessions => "some older events of sessions were not read",
        };
        let _ = writeln!(out, "{}", style.dim(&format!("Note: {what}.")));
    }
    out
}

fn sentences(out: &mut String, section: &BriefingSection, style: Style, now: Timestamp) {
    for sentence in &section.sentences {
        let more = match sentence.event_count.saturating_sub(1) {
            0 => String::new(),
            number => format!(" and {}", count(number, "more event")),
        };
        let links = sentence.links.first().map(|link| format!("{}{more}", link.href)).unwrap_or_default();
        let at = style.dim(&format!("({})", time::ago(sentence.at, now)));
        let _ = writeln!(out, "- {} {at}\n    {}", line(&sentence.text, 600), style.dim(&links));
    }
    if section.omitted() > 0 {
        let _ = writeln!(out, "and {} more", section.omitted());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::show;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn each_section_has_its_sentences_with_a_link() {
        let project = "0197b1c0-1111-7000-8000-00000000aaaa";
        let sentence = json!({
            "text": "Builder asks “Which store?”.", "at": "2026-11-21T20:00:00.000Z", "eventCount": 3,
            "links": [{ "type": "decision", "decisionId": project, "href": "/api/decisions/d1" }],
        });
        let none = json!({ "count": 0, "sentences": [] });
        let briefing = serde_json::from_value(json!({
            "projectId": project, "name": "Shop\u{1b}[2J", "since": "2026-11-20T20:02:00.000Z", "until": now(),
            "attention": { "count": 21, "sentences": [sentence] },
            "finished": none, "risks": none, "automaticDecisions": none,
            "cost": { "spentUsd": "0.5", "isPartial": true, "totalUsd": "2", "count": 0, "sentences": [] },
            "incomplete": ["decision_log"],
        }))
        .unwrap();
        let expected = "Shop[2J  since 24 h ago

Attention (21)
- Builder asks “Which store?”. (2 min ago)
    /api/decisions/d1 and 2 more events
and 20 more

Nothing was finished.

No risks.

No automatic decisions.

Cost: at least $0.5, $2 in total
Note: only the latest 1,000 entries of the decision log were read.
";
        assert_eq!(show(&briefing, Style::PLAIN, now()), expected);
    }
}
