use std::fmt::Write as _;

use pilothouse_api::skills::{SkillSummary, SkillView};
use pilothouse_domain::Timestamp;
use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus};

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::{text, time};

pub fn list(skills: &[SkillSummary], style: Style) -> String {
    if skills.is_empty() {
        return "No skills; create one with `pilothouse skill create NAME --description TEXT`\n".to_owned();
    }
    let mut table = Table::new(&["NAME", ">VERSION", "STATE", ">TOOLS", ">SUBAGENTS", ">PILLS", "ID"]);
    for skill in skills {
        let state = match (&skill.consolidation_session_id, skill.is_active) {
            (Some(_), _) => Cell::painted("consolidating", Paint::Yellow),
            (None, true) => "active".into(),
            (None, false) => Cell::painted("inactive", Paint::Dim),
        };
        table.row(vec![
            text::line(&skill.name, 40).into(),
            skill.version.to_string().into(),
            state,
            skill.tool_count.to_string().into(),
            skill.sub_agent_count.to_string().into(),
            skill.active_pill_count.to_string().into(),
            Cell::painted(skill.id.to_string(), Paint::Dim),
        ]);
    }
    table.render(style)
}

/// A skill in one line: the result of a change.
pub fn line(skill: &SkillView, style: Style, _: Timestamp) -> String {
    let state = if skill.is_active { "active" } else { "inactive" };
    let name = style.bold(&text::line(&skill.name, 100));
    let id = style.dim(&skill.id.to_string());
    let pills = count(skill.memory_pills.len(), "memory pill");
    format!("{name}  version {}, {state}, {pills}  {id}\n", skill.version)
}

pub fn show(skill: &SkillView, style: Style, now: Timestamp) -> String {
    let mut out = line(skill, style, now);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", text::clean(&skill.description));
    if let Some(consolidation) = &skill.consolidation {
        let proposed = if consolidation.proposal.is_some() { "; new instructions are proposed" } else { "" };
        let pills = count(consolidation.pill_ids.len(), "memory pill");
        let _ = writeln!(
            out,
            "{}",
            style.paint(
                Paint::Yellow,
                &format!("Session {} consolidates {pills}{proposed}", consolidation.session_id)
            )
        );
    }
    if !skill.instructions.is_empty() {
        let _ = write!(out, "\n{}", text::indented(&skill.instructions, "  "));
    }
    for tool in &skill.tool_definitions {
        let about = text::line(tool.description.as_str(), 80);
        let _ =
            writeln!(out, "\nTool {}: {about}\n  {}", text::line(tool.name.as_str(), 100), tool.server_uri);
    }
    for agent in &skill.sub_agent_definitions {
        let about = text::line(agent.description.as_str(), 80);
        let _ = writeln!(
            out,
            "\nSubagent {} ({}): {about}",
            text::line(agent.name.as_str(), 100),
            text::line(agent.model_id.as_str(), 100)
        );
    }
    if !skill.memory_pills.is_empty() {
        let _ = write!(out, "\n{}", pills(&skill.memory_pills, style, now));
    }
    out
}

pub fn pills(pills: &[MemoryPill], style: Style, now: Timestamp) -> String {
    if pills.is_empty() {
        return "No memory pills\n".to_owned();
    }
    let mut table = Table::new(&["PILL", "CATEGORY", "STATE", "RECORDED", "WHAT"]);
    for pill in pills {
        let paint = if pill.status == MemoryPillStatus::Active { Paint::Plain } else { Paint::Dim };
        table.row(vec![
            Cell::painted(pill.id.to_string(), Paint::Dim),
            pill.category.to_string().into(),
            Cell::painted(pill.status.to_string(), paint),
            time::ago(pill.created_at, now).into(),
            Cell::painted(text::line(pill.content.as_str(), 80), paint),
        ]);
    }
    table.render(style)
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{line, list, pills, show};
    use crate::output::Style;
    use crate::output::fixtures::now;

    const ID: &str = "0197b1c0-1111-7000-8000-00000000aaaa";

    fn pill() -> serde_json::Value {
        json!({
            "id": ID, "skillId": ID, "sessionId": ID, "content": "Use \u{1b}nextest", "category": "Tip",
            "status": "Active", "createdAt": "2026-11-21T20:00:00.000Z",
        })
    }

    #[test]
    fn skills_are_listed_with_their_counts() {
        assert!(list(&[], Style::PLAIN).starts_with("No skills"));
        let skill = json!({
            "id": ID, "name": "testing", "description": "x", "version": 3, "isActive": true, "toolCount": 1,
            "subAgentCount": 0, "activePillCount": 2, "updatedAt": "2026-11-21T20:00:00.000Z",
        });
        let skill = serde_json::from_value(skill).unwrap();
        assert_eq!(
            list(&[skill], Style::PLAIN),
            format!(
                "NAME     VERSION  STATE   TOOLS  SUBAGENTS  PILLS  ID\n\
                 testing        3  active      1          0      2  {ID}\n"
            )
        );
    }

    #[test]
    fn skill_is_shown_in_full_without_control_characters() {
        let skill = json!({
            "id": ID, "ownerId": "local", "name": "testing", "description": "How we test", "version": 1,
            "instructions": "Test first.", "isActive": false, "toolDefinitions": [], "subAgentDefinitions": [],
            "memoryPills": [pill()], "createdAt": "2026-11-21T20:00:00.000Z",
            "updatedAt": "2026-11-21T20:00:00.000Z", "revision": 1,
        });
        let skill = serde_json::from_value(skill).unwrap();
        let first = format!("testing  version 1, inactive, 1 memory pill  {ID}\n");
        assert_eq!(line(&skill, Style::PLAIN, now()), first);
        let shown = show(&skill, Style::PLAIN, now());
        assert!(shown.starts_with(&format!("{first}How we test\n\n  Test first.\n\nPILL")), "{shown}");
        assert!(shown.contains("2 min ago  Use nextest"), "{shown}");
        assert_eq!(pills(&[], Style::PLAIN, now()), "No memory pills\n");
    }
}
