//! A summary of a conversation, built from the agent's events, for a new conversation after the agent has lost this
//! one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pilothouse_domain::text::cut;
use pilothouse_domain::value::SessionTaskStatus;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool_names::EXIT_PLAN_MODE;

/// In bytes. Keeps the summary far below the size limit of one program argument.
const MAX_MESSAGES_BYTES: usize = 24 * 1024;
/// In characters.
const MAX_MESSAGE: usize = 4000;
/// In bytes.
pub(crate) const MAX_LAST_TEXT: usize = 8 * 1024;
/// In characters.
const MAX_PLAN: usize = 8000;
/// For tasks and for tool calls. The latest ones are kept.
const MAX_ENTRIES: usize = 60;
/// In characters, for a task, and for a tool call with its result.
const MAX_ENTRY: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConversationSummary {
    /// Messages to the agent, in order. Of too many, the first and the latest are kept: the task and its current state.
    messages: Vec<String>,
    last_words: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<String>,
    /// Finished tool calls, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    work: Vec<String>,
    /// Tool calls without a result.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    open: BTreeMap<String, String>,
}

impl ConversationSummary {
    pub(crate) fn record_message(&mut self, message: &str) {
        self.messages.push(cut(message, MAX_MESSAGE));
        while self.messages.len() > 2
            && self.messages.iter().map(String::len).sum::<usize>() > MAX_MESSAGES_BYTES
        {
            self.messages.remove(1);
        }
    }

    /// Sets the agent's latest text, of the current or the last turn.
    pub(crate) fn record_reply(&mut self, words: &str) {
        end_of(words, MAX_LAST_TEXT).trim().clone_into(&mut self.last_words);
    }

    /// Adds texts (if `hears` is set), plans, tasks and tool calls from an event. `redact` removes secrets. Returns
    /// whether the summary changed.
    pub(crate) fn take(&mut self, event: &RawEvent, hears: bool, redact: impl Fn(&str) -> String) -> bool {
        match event {
            RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } if hears => {
                let words = format!("{}\n{}", self.last_words, redact(&text.text()));
                self.record_reply(&words);
            }
            RawEvent::AssistantMessage {
                content: AssistantContent::ToolUse { tool_call_id, tool_name, input },
                ..
            } => {
                if let Some(plan) =
                    input.get("plan").and_then(Value::as_str).filter(|_| tool_name == EXIT_PLAN_MODE)
                {
                    self.plan = Some(cut(&redact(plan), MAX_PLAN));
                }
                let call = one_line(&redact(&format!("{tool_name} {input}")), MAX_ENTRY);
                self.open.insert(tool_call_id.to_string(), call);
                while self.open.len() > MAX_ENTRIES {
                    self.open.pop_first();
                }
            }
            RawEvent::ToolResult { tool_call_id, content, is_error, .. } => {
                let Some(call) = self.open.remove(tool_call_id.as_str()) else { return false };
                let how = if *is_error { "failed" } else { "done" };
                let result = one_line(&redact(&content.text()), MAX_ENTRY);
                self.work.push(format!("{call}: {how}: {result}"));
                let excess = self.work.len().saturating_sub(MAX_ENTRIES);
                self.work.drain(..excess);
            }
            RawEvent::TaskList { tasks } => {
                let tasks = tasks.iter().take(MAX_ENTRIES).map(|task| {
                    let state = match task.status {
                        SessionTaskStatus::Completed => "done",
                        SessionTaskStatus::InProgress => "in progress",
                        SessionTaskStatus::Pending => "to do",
                    };
                    format!("[{state}] {}", one_line(&redact(&task.subject), MAX_ENTRY))
                });
                self.tasks = tasks.collect();
            }
            _ => return false,
        }
        true
    }

    /// Whether [`Self::take`] would use an event that is not text.
    pub(crate) const fn notes(event: &RawEvent) -> bool {
        matches!(
            event,
            RawEvent::AssistantMessage { content: AssistantContent::ToolUse { .. }, .. }
                | RawEvent::ToolResult { .. }
                | RawEvent::TaskList { .. }
        )
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Merges the summary of the conversation that replaced this one.
    pub(crate) fn followed_by(mut self, next: &Self) -> Self {
        for message in &next.messages {
            self.record_message(message);
        }
        if !next.last_words.is_empty() {
            self.last_words.clone_from(&next.last_words);
        }
        if next.plan.is_some() {
            self.plan.clone_from(&next.plan);
        }
        if !next.tasks.is_empty() {
            self.tasks.clone_from(&next.tasks);
        }
        self.work.extend(next.work.iter().cloned());
        let excess = self.work.len().saturating_sub(MAX_ENTRIES);
        self.work.drain(..excess);
        self.open.extend(next.open.clone());
        self
    }

    /// The prompt for an agent that continues the task without its conversation.
    pub(crate) fn to_text(&self, objective: &str) -> String {
        let mut text = "You have worked in this session before, and the conversation was lost; the files are as you left them. \
                        Look at what is there before you continue, and do not repeat what is done."
            .to_owned();
        let _ = write!(text, "\n\nYour task:\n<task>\n{objective}\n</task>");
        let messages: Vec<_> =
            self.messages.iter().filter(|message| **message != cut(objective, MAX_MESSAGE)).collect();
        if !messages.is_empty() {
            text.push_str("\n\nWhat you were told, in order:");
            for message in messages {
                let _ = write!(text, "\n<message>\n{message}\n</message>");
            }
        }
        if let Some(plan) = &self.plan {
            let _ = write!(text, "\n\nYour plan:\n<plan>\n{plan}\n</plan>");
        }
        let open: Vec<_> = self.open.values().cloned().collect();
        for (title, lines) in [
            ("Your task list:", &self.tasks),
            ("The tools that you used, with how each call ended:", &self.work),
            ("Tool calls that were cut off; check what they did:", &open),
        ] {
            if !lines.is_empty() {
                let _ = write!(text, "\n\n{title}\n- {}", lines.join("\n- "));
            }
        }
        if !self.last_words.is_empty() {
            text.push_str("\n\nWhat you said last:\n<last_words>\n");
            text.push_str(&self.last_words);
            text.push_str("\n</last_words>");
        }
        text
    }
}

fn one_line(text: &str, most: usize) -> String {
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// The end of a text: at most `most` bytes, cut at a character boundary.
pub(crate) fn end_of(text: &str, most: usize) -> &str {
    let excess = text.len().saturating_sub(most);
    let from = (excess..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}

#[cfg(test)]
mod tests {
    use pilothouse_wire::event::RawTask;
    use serde_json::json;

    use super::*;

    fn call(id: &str, tool_name: &str, input: Value) -> RawEvent {
        let content = AssistantContent::ToolUse {
            tool_call_id: id.parse().unwrap(),
            tool_name: tool_name.into(),
            input,
        };
        RawEvent::AssistantMessage { content, turn_id: None }
    }

    fn result(id: &str, content: &str, is_error: bool) -> RawEvent {
        let content = content.into();
        RawEvent::ToolResult { tool_call_id: id.parse().unwrap(), content, is_error, subagent_id: None }
    }

    #[test]
    fn summary_lists_requests_in_order_and_the_last_message() {
        let mut summary = ConversationSummary::default();
        assert!(summary.is_empty());
        summary.record_message("do a");
        summary.record_message("then b");
        summary.record_reply("I did a.");
        let mut next = ConversationSummary::default();
        next.record_message("then c");
        let text = summary.followed_by(&next).to_text("do a");
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at("do a") < at("then b") && at("then b") < at("then c") && at("then c") < at("I did a."));
        assert_eq!(text.matches("do a").count(), 1, "the task is not repeated as a message");
    }

    #[test]
    fn summary_lists_plan_tasks_and_completed_work() {
        let mut summary = ConversationSummary::default();
        let plain = |text: &str| text.replace("hunter2", "[secret]");
        let task = |id: &str, status| RawTask {
            id: id.into(),
            subject: format!("task {id}"),
            status,
            active_form: None,
        };
        let tasks = vec![task("1", SessionTaskStatus::Completed), task("2", SessionTaskStatus::Pending)];
        for event in [
            call("p", "ExitPlanMode", json!({ "plan": "First a, then b." })),
            result("p", "approved", false),
            RawEvent::TaskList { tasks },
            call("a", "Bash", json!({ "command": "login hunter2" })),
            result("a", "line one\nline two", true),
            call("b", "Bash", json!({ "command": "make" })),
        ] {
            assert!(summary.take(&event, true, plain));
        }
        assert!(!summary.take(&RawEvent::Heartbeat { disk_full: false }, true, plain));
        let kept: ConversationSummary =
            serde_json::from_value(serde_json::to_value(&summary).unwrap()).unwrap();
        let text = ConversationSummary::default().followed_by(&kept).to_text("build it");
        for part in [
            "<task>\nbuild it\n</task>",
            "<plan>\nFirst a, then b.\n</plan>",
            "- [done] task 1\n- [to do] task 2",
            r#"- Bash {"command":"login [secret]"}: failed: line one line two"#,
            "cut off; check what they did:\n- Bash {\"command\":\"make\"}",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn summary_is_bounded_and_keeps_the_task_and_the_end() {
        let mut summary = ConversationSummary::default();
        summary.record_message("the task");
        for n in 0..100 {
            summary.record_message(&format!("{n} {}", "ü".repeat(10_000)));
            summary.take(&call(&format!("c{n}"), "Bash", json!("x".repeat(10_000))), true, str::to_owned);
            summary.take(&result(&format!("c{n}"), &"y".repeat(10_000), false), true, str::to_owned);
            summary.take(&call(&format!("o{n}"), "Bash", json!("x".repeat(10_000))), true, str::to_owned);
        }
        summary.record_reply(&format!("{} the end", "ü".repeat(100_000)));
        let text = summary.to_text("the task");
        assert!(text.len() < 100 * 1024, "{}", text.len());
        assert!(text.contains("the task") && text.contains("99 ü") && text.contains("the end"));
    }
}
