//! The screen of the interactive inbox.

use pilothouse_api::decisions::{DecisionView, rule_in_words};
use pilothouse_domain::Timestamp;
use pilothouse_domain::decision::{DecisionSubject, ResolutionType};
use pilothouse_domain::effect::Effect;
use pilothouse_domain::escalation::ToolApproval;
use serde_json::Value;

use super::Style;
use super::inbox::{content, source_name, words};
use super::style::Paint;
use super::text::{indented, line};
use super::time;

pub const HELP: &str = "\
a      approve
A      approve this call and all further ones like it (agents of projects)
r      reject; asks for the reason
m      change the input in $EDITOR and approve
1..9   choose an option
t      type an answer
d      dismiss a decision whose agent has ended
n p    next and previous decision
s      last lines of the session
up, down   scroll
q      quit

The screen never moves to another decision by itself.
";

/// What the screen shows.
#[derive(Debug)]
pub struct InboxScreen<'a> {
    pub pending: usize,
    /// From 0.
    pub position: Option<usize>,
    pub decision: Option<&'a DecisionView>,
    /// What became of the decision.
    pub over: Option<&'a str>,
    pub can_always: bool,
    pub notice: Option<&'a str>,
}

/// The beginning of an id, which `pilothouse resolve` takes.
pub fn short_id(decision: &DecisionView) -> String {
    decision.id.to_string().chars().take(8).collect()
}

/// The screen as lines. `extra` takes the place of the decision.
pub fn screen(view: &InboxScreen<'_>, extra: Option<&str>, style: Style, now: Timestamp) -> String {
    let position = view.position.map(|at| format!("{} of ", at + 1)).unwrap_or_default();
    let mut lines = vec![style.dim(&format!("Inbox: {position}{} pending", view.pending))];
    lines.extend(view.notice.map(|notice| style.paint(Paint::Yellow, &line(notice, 200))));
    lines.push(String::new());
    match (extra, view.decision, view.over) {
        (Some(extra), ..) => {
            lines.extend([extra.trim_end().to_owned(), String::new(), style.dim("Any key goes back.")]);
        }
        (None, None, _) => {
            lines.push("Nothing waits for you. New decisions appear here; q quits.".to_owned());
        }
        (None, Some(decision), Some(over)) => {
            let outcome = format!("{} is over: {over}", short_id(decision));
            lines.extend([style.paint(Paint::Green, &outcome), style.dim("n shows the next one.")]);
        }
        (None, Some(decision), None) => {
            lines.extend([style.dim(&hints(view, decision)), String::new(), head(decision, style, now)]);
            lines.extend(request(decision, style));
        }
    }
    lines.join("\n") + "\n"
}

fn head(decision: &DecisionView, style: Style, now: Timestamp) -> String {
    let kind = words(&decision.subject.kind().to_string());
    let risk = match (decision.severity, decision.blast_radius) {
        (Some(severity), Some(reach)) => format!(", {severity} severity, {reach} reach"),
        (Some(severity), None) => format!(", {severity} severity"),
        (None, _) => String::new(),
    };
    let expires = decision.expires_at.map(|at| format!(", expires {}", time::until(at, now)));
    let source = format!(
        "({}, {}{})",
        line(source_name(decision), 60),
        time::ago(decision.created_at, now),
        expires.unwrap_or_default()
    );
    let title = style.paint(Paint::Yellow, &format!("{}  {kind}{risk}", short_id(decision)));
    format!("{title} {}", style.dim(&source))
}

fn request(decision: &DecisionView, style: Style) -> Vec<String> {
    match &decision.subject {
        DecisionSubject::ToolApproval { approval, question, .. } => {
            let mut lines = vec![format!("  {}", line(question, 200))];
            lines.extend(call(approval, style));
            lines
        }
        subject => {
            vec![content(subject, decision.session.as_ref(), style).trim_end().to_owned()]
        }
    }
}

/// A tool call with its effects, its rule and all of its arguments.
fn call(approval: &ToolApproval, style: Style) -> Vec<String> {
    let mut lines = vec![format!("  {}", style.bold(&line(&approval.tool_name, 80)))];
    if let Some(verdict) = &approval.verdict {
        lines.extend(verdict.effects.iter().map(|effect| {
            let Effect { action_kind, severity, blast_radius, .. } = effect;
            format!("  does: {action_kind}, {severity} severity, {blast_radius} reach")
        }));
        lines.push(format!("  because: {}", line(&rule_in_words(&verdict.rule), 160)));
    }
    let input = serde_json::from_str::<Value>(&approval.input);
    if let Ok(input) = input.and_then(|input| serde_json::to_string_pretty(&input)) {
        lines.push(indented(&input, "  ").trim_end().to_owned());
    } else {
        lines.push(indented(&approval.input, "  ").trim_end().to_owned());
        lines.push("  (the input is cut; `pilothouse tools` shows all of it)".to_owned());
    }
    lines
}

fn hints(view: &InboxScreen<'_>, decision: &DecisionView) -> String {
    let mut hints: Vec<&str> = Vec::new();
    for resolution in &decision.resolutions {
        match resolution {
            ResolutionType::Approve => {
                hints.push("a approve");
                if view.can_always {
                    hints.push("A always");
                }
            }
            ResolutionType::Reject => hints.push("r reject"),
            ResolutionType::Modify => hints.push("m change"),
            ResolutionType::ChooseOption => hints.push("1-9 choose"),
            ResolutionType::Answer => hints.push("t answer"),
            ResolutionType::Dismiss => hints.push("d dismiss"),
        }
    }
    hints.extend(["n next", "p previous", "s lines", "q quit", "? help"]);
    hints.join("  ")
}

/// The lines of `text` from `top` on that fit the terminal. Long lines are wrapped, so that nothing is hidden at their end. `top` is
/// limited so that something is shown.
pub fn visible(text: &str, top: &mut usize, width: usize, height: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for whole in text.lines() {
        wrap(whole, width, &mut lines);
    }
    *top = (*top).min(lines.len().saturating_sub(height));
    let hidden = lines.len().saturating_sub(*top + height);
    let mut shown: Vec<_> = lines.into_iter().skip(*top).take(height).collect();
    if hidden > 0
        && let Some(last) = shown.last_mut()
    {
        *last = format!("({} more lines; press the down key)", hidden + 1);
    }
    shown
}

/// Escape sequences take no place.
fn wrap(whole: &str, width: usize, lines: &mut Vec<String>) {
    let (mut current, mut taken, mut in_escape) = (String::new(), 0, false);
    for c in whole.chars() {
        if c == '\x1b' {
            in_escape = true;
        }
        if !in_escape {
            if taken == width {
                lines.push(std::mem::take(&mut current));
                taken = 0;
            }
            taken += 1;
        }
        current.push(c);
        if in_escape && c.is_ascii_alphabetic() {
            in_escape = false;
        }
    }
    lines.push(current);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{InboxScreen, screen, visible};
    use crate::output::Style;
    use crate::output::fixtures::{decision, now};

    #[test]
    fn call_is_shown_with_keys_and_all_of_its_arguments() {
        let call = decision(&json!({
            "kind": "tool_approval", "requestId": "t1", "question": "May it?", "toolName": "Bash",
            "input": "{\"command\":\"rm x\"}", "allow": "Allow", "deny": "Deny", "severity": "high",
            "blastRadius": "unknown", "resolutions": ["approve", "reject"], "state": "pending",
        }));
        let view = InboxScreen {
            pending: 2,
            position: Some(0),
            decision: Some(&call),
            over: None,
            can_always: false,
            notice: Some("Something happened"),
        };
        assert_eq!(
            screen(&view, None, Style::PLAIN, now()),
            "\
Inbox: 1 of 2 pending
Something happened

a approve  r reject  n next  p previous  s lines  q quit  ? help

92944b5c  tool approval, high severity, unknown reach (demo, 30 s ago)
  May it?
  Bash
  {
    \"command\": \"rm x\"
  }
"
        );
    }

    #[test]
    fn long_texts_are_wrapped_and_scrolled() {
        let text = "abcdef\n\x1b[1mgh\x1b[0m\nij\n";
        let mut top = 0;
        assert_eq!(visible(text, &mut top, 3, 4), ["abc", "def", "\x1b[1mgh\x1b[0m", "ij"]);
        assert_eq!(visible(text, &mut top, 3, 2), ["abc", "(3 more lines; press the down key)"]);
        top = 9;
        assert_eq!(
            (visible(text, &mut top, 3, 2), top),
            (vec!["\x1b[1mgh\x1b[0m".to_owned(), "ij".to_owned()], 2)
        );
    }
}
