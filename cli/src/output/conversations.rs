//! The conversations of an agent.

use pilothouse_domain::value::AgentConversations;

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::line;

/// The branches, and the labels below.
pub fn list(conversations: &AgentConversations, style: Style) -> String {
    if conversations.branches.is_empty() {
        return "The agent has one conversation, without branches and labels.\n".into();
    }
    let mut table = Table::new(&["", "CONVERSATION", ">TURNS", "LAST TURN", "BEGUN FROM"]);
    for branch in &conversations.branches {
        let mark = if branch.is_current { "▸" } else { " " };
        table.row(vec![
            mark.into(),
            Cell::painted(line(&branch.conversation_id, 100), Paint::Bold),
            branch.turns.to_string().into(),
            branch.last_turn_id.as_ref().map(|turn| line(turn.as_str(), 60)).unwrap_or_default().into(),
            branch.parent_id.as_ref().map(|id| line(id, 100)).unwrap_or_default().into(),
        ]);
    }
    let mut out = table.render(style);
    for label in &conversations.labels {
        let (text, turn) = (style.bold(&line(&label.label, 100)), line(label.turn_id.as_str(), 60));
        out.extend([text.as_str(), "  ", turn.as_str(), "\n"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn branches_are_listed_with_the_current_one_and_labels() {
        let one = json!({ "conversationId": "a", "lastTurnId": "t1", "turns": 1, "isCurrent": false });
        let two = json!({ "conversationId": "b", "parentId": "a", "turns": 0, "isCurrent": true });
        let labels = json!([{ "turnId": "t1", "label": "before the\nrewrite" }]);
        let listed = json!({ "branches": [one, two], "labels": labels });
        let text = list(&serde_json::from_value(listed).unwrap(), Style::PLAIN);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected: [&[&str]; 4] = [
            &["CONVERSATION", "TURNS", "LAST", "TURN", "BEGUN", "FROM"],
            &["a", "1", "t1"],
            &["▸", "b", "0", "a"],
            &["before", "the", "rewrite", "t1"],
        ];
        assert_eq!(lines, expected, "{text}");
        let none = list(&AgentConversations::default(), Style::PLAIN);
        assert!(none.starts_with("The agent has one conversation"), "{none}");
    }
}
