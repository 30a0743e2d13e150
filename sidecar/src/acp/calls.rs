//! Tool calls: each is told once with its whole input, and has exactly one result.

use std::collections::{BTreeMap, HashSet};

use pilothouse_domain::{SubAgentId, ToolCallId};
use pilothouse_wire::event::{AssistantContent, Content, RawEvent};
use serde_json::{Value, json};

use super::json::{list, text, text_at};

/// Looks up what a terminal printed, by its id.
pub(super) type Printed<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A call that has no result yet.
#[derive(Debug, Default)]
struct Call {
    name: Option<String>,
    title: Option<String>,
    kind: Option<String>,
    input: Value,
    output: Value,
    content: Vec<Value>,
    told: bool,
    subagent: Option<SubAgentId>,
}

/// The calls of a conversation.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: BTreeMap<String, Call>,
    /// In the order in which they came.
    order: Vec<String>,
    /// Those that have their result: whatever is said of them later is no news.
    closed: HashSet<String>,
}

impl Calls {
    /// Takes a `tool_call` or a `tool_call_update`.
    pub(super) fn update(
        &mut self,
        update: &Value,
        subagent: Option<&SubAgentId>,
        printed: Printed,
    ) -> Vec<RawEvent> {
        let Some(id) = text(update, "toolCallId") else { return Vec::new() };
        if self.closed.contains(id) || ToolCallId::parse(id).is_err() {
            return Vec::new();
        }
        let first = !self.open.contains_key(id);
        let spoke_of_input = self.merge(id, update, subagent);
        let mut events = Vec::new();
        match text(update, "status") {
            Some(status @ ("completed" | "failed")) => {
                events.extend(self.tell(id));
                events.extend(self.close(id, status == "failed", printed));
            }
            Some("in_progress") => events.extend(self.tell(id)),
            // It speaks of the call, but no longer of its input: that is whole.
            _ if !first && !spoke_of_input => events.extend(self.tell(id)),
            _ => {}
        }
        events
    }

    /// The agent speaks of something else: inputs that were streamed are whole. An empty one may still come.
    pub(super) fn inputs_are_whole(&mut self) -> Vec<RawEvent> {
        let ready: Vec<_> = self
            .order
            .iter()
            .filter(|id| self.open.get(*id).is_some_and(|call| !is_empty(&call.input)))
            .cloned()
            .collect();
        ready.iter().filter_map(|id| self.tell(id)).collect()
    }

    /// Whether a call waits to be told.
    pub(super) fn any_untold(&self) -> bool {
        self.open.values().any(|call| !call.told)
    }

    /// Tells every call that was not told, with what is known of it.
    pub(super) fn tell_all(&mut self) -> Vec<RawEvent> {
        self.order.clone().iter().filter_map(|id| self.tell(id)).collect()
    }

    /// The agent asks something about a call: takes what it says of it, and tells it before the question is told.
    pub(super) fn asked_about(&mut self, call: &Value) -> Vec<RawEvent> {
        let Some(id) = text(call, "toolCallId") else { return Vec::new() };
        if self.closed.contains(id) || ToolCallId::parse(id).is_err() {
            return Vec::new();
        }
        self.merge(id, call, None);
        self.tell(id).into_iter().collect()
    }

    /// The input of an open call.
    pub(super) fn input(&self, id: &str) -> Option<&Value> {
        self.open.get(id).map(|call| &call.input)
    }

    /// The name of an open call's tool.
    pub(super) fn name(&self, id: &str) -> Option<String> {
        self.open.get(id).map(Call::tool_name)
    }

    /// Ends every call that is open, in an error that says `why`.
    pub(super) fn close_all(&mut self, why: &str) -> Vec<RawEvent> {
        let mut events = self.tell_all();
        for id in std::mem::take(&mut self.order) {
            if let Some(call) = self.open.remove(&id)
                && let Ok(tool_call_id) = ToolCallId::parse(id.as_str())
            {
                events.push(RawEvent::ToolResult {
                    tool_call_id,
                    content: why.into(),
                    is_error: true,
                    subagent_id: call.subagent,
                });
                self.closed.insert(id);
            }
        }
        events
    }

    /// Takes what is said of a call. Answers whether its input was among it.
    fn merge(&mut self, id: &str, update: &Value, subagent: Option<&SubAgentId>) -> bool {
        if !self.open.contains_key(id) {
            self.order.push(id.to_owned());
        }
        let call = self.open.entry(id.to_owned()).or_default();
        let keep = |kept: &mut Option<String>, said: Option<&str>| {
            if let Some(said) = said.filter(|said| !said.is_empty()) {
                *kept = Some(said.to_owned());
            }
        };
        keep(
            &mut call.name,
            text(update, "name")
                .or_else(|| text_at(update, &["_meta", "claudeCode", "toolName"]))
                .or_else(|| text_at(update, &["_meta", "goose", "toolCall", "toolName"])),
        );
        keep(&mut call.title, text(update, "title"));
        // `other` says nothing of the tool: a list that allowed it would allow everything.
        keep(&mut call.kind, text(update, "kind").filter(|kind| *kind != "other"));
        if call.subagent.is_none() {
            call.subagent = subagent.cloned();
        }
        if let Some(output) = update.get("rawOutput").filter(|output| !output.is_null()) {
            call.output = output.clone();
        }
        if update.get("content").is_some_and(Value::is_array) && !list(update, "content").is_empty() {
            call.content = list(update, "content").to_vec();
        }
        let input = update.get("rawInput");
        if let Some(input) = input.filter(|input| !is_empty(input)) {
            call.input = input.clone();
        }
        input.is_some()
    }

    fn tell(&mut self, id: &str) -> Option<RawEvent> {
        let call = self.open.get_mut(id).filter(|call| !call.told)?;
        let tool_call_id = ToolCallId::parse(id).ok()?;
        call.told = true;
        let content =
            AssistantContent::ToolUse { tool_call_id, tool_name: call.tool_name(), input: call.told_input() };
        Some(match &call.subagent {
            Some(subagent_id) => RawEvent::SubagentMessage { subagent_id: subagent_id.clone(), content },
            None => RawEvent::AssistantMessage { content, turn_id: None },
        })
    }

    fn close(&mut self, id: &str, is_error: bool, printed: Printed) -> Option<RawEvent> {
        let call = self.open.remove(id)?;
        self.order.retain(|open| open != id);
        self.closed.insert(id.to_owned());
        Some(RawEvent::ToolResult {
            tool_call_id: ToolCallId::parse(id).ok()?,
            content: call.result(printed),
            is_error,
            subagent_id: call.subagent,
        })
    }
}

impl Call {
    fn tool_name(&self) -> String {
        let named = [&self.name, &self.kind, &self.title].into_iter().flatten().next();
        pilothouse_domain::text::cut(named.map_or("tool", String::as_str), 200)
    }

    /// The input; for agents that do not say it, what they show of the call instead.
    fn told_input(&self) -> Value {
        if !is_empty(&self.input) {
            return self.input.clone();
        }
        match &self.title {
            Some(title) if self.name.as_ref() != Some(title) => json!({ "title": title }),
            _ => json!({}),
        }
    }

    fn result(&self, printed: Printed) -> Content {
        if let Value::String(text) = &self.output {
            return Content::Text(text.clone());
        }
        let words: Option<Vec<String>> = self.content.iter().map(|part| shown(part, printed)).collect();
        match words {
            Some(words) if !words.is_empty() => Content::Text(words.join("\n")),
            None => Content::Json(Value::Array(self.content.clone())),
            Some(_) if self.output.is_null() => Content::Text(String::new()),
            Some(_) => Content::Json(self.output.clone()),
        }
    }
}

/// A part of a call's content as text; nothing when it is a difference or a picture.
fn shown(part: &Value, printed: Printed) -> Option<String> {
    match text(part, "type") {
        Some("content") => text_at(part, &["content", "text"]).map(str::to_owned),
        Some("terminal") => printed(text(part, "terminalId")?),
        _ => None,
    }
}

fn is_empty(input: &Value) -> bool {
    match input {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    fn told(events: &[RawEvent]) -> Vec<String> {
        events
            .iter()
            .map(|event| match event {
                RawEvent::AssistantMessage {
                    content: AssistantContent::ToolUse { tool_name, input, .. },
                    ..
                } => {
                    format!("{tool_name} {input}")
                }
                RawEvent::ToolResult { content, is_error, .. } => format!("{} {is_error}", content.text()),
                other => other.name().to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_call_is_told_once_with_the_whole_input_that_was_streamed() {
        let mut calls = Calls::default();
        let mut take = |update: Value| told(&calls.update(&update, None, &nothing));
        assert!(
            take(json!({"toolCallId": "c", "name": "Edit", "rawInput": {}, "status": "pending"})).is_empty()
        );
        assert!(take(json!({"toolCallId": "c", "rawInput": {"path": "a"}})).is_empty());
        assert!(take(json!({"toolCallId": "c", "rawInput": {"path": "a", "new": "b"}})).is_empty());
        assert_eq!(
            take(json!({"toolCallId": "c", "status": "in_progress"})),
            [format!("Edit {}", json!({"path": "a", "new": "b"}))]
        );
        assert_eq!(
            take(json!({"toolCallId": "c", "status": "completed", "rawOutput": "done"})),
            ["done false"]
        );
        assert!(take(json!({"toolCallId": "c", "status": "failed"})).is_empty(), "a second result");
    }

    #[test]
    fn a_result_without_an_announcement_still_has_its_call_before_it() {
        let mut calls = Calls::default();
        let update = json!({"toolCallId": "c", "title": "ls", "kind": "execute", "status": "failed",
            "content": [{"type": "content", "content": {"type": "text", "text": "no"}}]});
        assert_eq!(told(&calls.update(&update, None, &nothing)), [r#"execute {"title":"ls"}"#, "no true"]);
    }

    #[test]
    fn a_tool_is_called_by_its_name_wherever_that_stands_and_never_other() {
        let mut calls = Calls::default();
        let update = json!({"toolCallId": "c", "kind": "other", "title": "shell · ls", "rawInput": {"command": "ls"},
            "status": "in_progress", "_meta": {"goose": {"toolCall": {"toolName": "shell"}}}});
        assert_eq!(told(&calls.update(&update, None, &nothing)), [r#"shell {"command":"ls"}"#]);
        let update =
            json!({"toolCallId": "d", "kind": "other", "title": "Look around", "status": "in_progress"});
        assert_eq!(told(&calls.update(&update, None, &nothing)), [r#"Look around {"title":"Look around"}"#]);
    }

    #[test]
    fn what_is_open_at_the_end_ends_in_an_error() {
        let mut calls = Calls::default();
        calls.update(
            &json!({"toolCallId": "c", "name": "Bash", "rawInput": {"command": "x"}}),
            None,
            &nothing,
        );
        assert_eq!(told(&calls.close_all("stopped")), [r#"Bash {"command":"x"}"#, "stopped true"]);
        assert!(calls.close_all("stopped").is_empty());
    }

    #[test]
    fn a_terminal_shows_what_it_printed_and_a_difference_stays_as_it_is() {
        let printed = |id: &str| (id == "t").then(|| "out".to_owned());
        let mut calls = Calls::default();
        let update = json!({"toolCallId": "c", "status": "completed", "content": [{"type": "terminal", "terminalId": "t"}]});
        assert_eq!(told(&calls.update(&update, None, &printed))[1], "out false");
        let update =
            json!({"toolCallId": "d", "status": "completed", "content": [{"type": "diff", "path": "a"}]});
        assert!(told(&calls.update(&update, None, &printed))[1].contains("diff"));
    }
}
