//! Tool calls: each is published once with its complete input, and has exactly one result.

use std::collections::{BTreeMap, HashSet};

use pilothouse_classification::{Adapter, ToolCall, written_files};
use pilothouse_domain::text::cut;
use pilothouse_domain::{SubAgentId, ToolCallId};
use pilothouse_wire::event::{AssistantContent, Content, RawEvent};
use serde_json::{Value, json};

use crate::kit::authorizer::ProposedCall;
use crate::kit::conversation_summary::end_of;
use crate::kit::json::{list, text, text_at};
use crate::tool_names::{ASK_USER_QUESTION, EXIT_PLAN_MODE};

/// Looks up the output of a terminal by its id.
pub(super) type Printed<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Most characters of a tool's name.
const MAX_NAME: usize = 200;
/// Bytes of a command's output to keep, from its end.
const MAX_PRINTED: usize = 1024 * 1024;
/// Fields of `rawOutput` with a command's output, by preference (codex).
const OUTPUTS: [&str; 3] = ["aggregated_output", "formatted_output", "stdout"];

/// Qwen's names of tools that the control plane knows by name (S0 8.3).
const KNOWN_AS: [(&str, &str); 2] =
    [("exit_plan_mode", EXIT_PLAN_MODE), ("ask_user_question", ASK_USER_QUESTION)];

/// A call without a result.
#[derive(Debug, Default)]
struct Call {
    name: Option<String>,
    title: Option<String>,
    kind: Option<String>,
    input: Value,
    output: Value,
    content: Vec<Value>,
    /// The files that the call is about, each with a `path`.
    locations: Vec<Value>,
    /// The output of the call's command, if the agent sends it in pieces (`_meta.terminal_output_delta`).
    printed: String,
    exit: Option<i64>,
    published: bool,
    subagent: Option<SubAgentId>,
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    open: BTreeMap<String, Call>,
    /// Ids in order of arrival.
    order: Vec<String>,
    /// Calls with a result. Later updates of them are ignored.
    closed: HashSet<String>,
    /// The files that completed calls have written, until they are taken.
    written: Vec<(ToolCallId, Vec<String>)>,
}

impl Calls {
    /// Handles a `tool_call` or a `tool_call_update`.
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
                events.extend(self.publish(id));
                events.extend(self.close(id, status == "failed", printed));
            }
            Some("in_progress") => events.extend(self.publish(id)),
            // An update without input means that the input is complete.
            _ if !first && !spoke_of_input => events.extend(self.publish(id)),
            _ => {}
        }
        events
    }

    /// Completes streamed inputs when the agent sends something else. An empty input may still arrive.
    pub(super) fn finish_inputs(&mut self) -> Vec<RawEvent> {
        let ready: Vec<_> = self
            .order
            .iter()
            .filter(|id| self.open.get(*id).is_some_and(|call| !is_empty(&call.input)))
            .cloned()
            .collect();
        ready.iter().filter_map(|id| self.publish(id)).collect()
    }

    pub(super) fn any_unpublished(&self) -> bool {
        self.open.values().any(|call| !call.published)
    }

    pub(super) fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn publish_all(&mut self) -> Vec<RawEvent> {
        self.order.clone().iter().filter_map(|id| self.publish(id)).collect()
    }

    /// Handles a request about a call: merges its data, and publishes the call before the request.
    pub(super) fn publish_for_request(&mut self, call: &Value) -> Vec<RawEvent> {
        let Some(id) = text(call, "toolCallId") else { return Vec::new() };
        if self.closed.contains(id) || ToolCallId::parse(id).is_err() {
            return Vec::new();
        }
        let mut call = call.clone();
        if let Some(Value::Array(content)) = call.get_mut("content") {
            // Its text is the question for the owner, not a result.
            content.retain(|part| text(part, "type") != Some("content"));
        }
        self.merge(id, &call, None);
        self.publish(id).into_iter().collect()
    }

    pub(super) fn is_known(&self, id: &str) -> bool {
        self.open.contains_key(id) || self.closed.contains(id)
    }

    pub(super) fn input(&self, id: &str) -> Option<&Value> {
        self.open.get(id).map(|call| &call.input)
    }

    pub(super) fn name(&self, id: &str) -> Option<String> {
        self.open.get(id).map(Call::tool_name)
    }

    /// The call as the control plane judges it. Its title may be the model's text, so it does not name the tool.
    /// `asked`: the call in the request for permission.
    pub(super) fn proposed(&self, id: &ToolCallId, asked: &Value) -> ProposedCall {
        let unknown = Call::default();
        let call = self.open.get(id.as_str()).unwrap_or(&unknown);
        let kind = call.kind.clone().or_else(|| text(asked, "kind").map(str::to_owned));
        let mut arguments = match &call.input {
            Value::Object(fields) => fields.clone(),
            Value::Null => serde_json::Map::new(),
            other => serde_json::Map::from_iter([("input".to_owned(), other.clone())]),
        };
        if arguments.is_empty()
            && let Some(title) = &call.title
        {
            arguments.insert("title".into(), title.clone().into());
        }
        if !call.locations.is_empty() && !arguments.contains_key("locations") {
            arguments.insert("locations".into(), call.locations.clone().into());
        }
        let tool = call.known_name().or_else(|| kind.clone()).unwrap_or_else(|| "tool".to_owned());
        ProposedCall { id: id.clone(), tool, kind, arguments: arguments.into() }
    }

    /// The files that calls have written whose results are the latest events.
    pub(super) fn take_written(&mut self) -> Vec<(ToolCallId, Vec<String>)> {
        std::mem::take(&mut self.written)
    }

    /// Ends all open calls with the error `why`.
    pub(super) fn close_all(&mut self, why: &str) -> Vec<RawEvent> {
        let mut events = self.publish_all();
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

    /// Merges an update into its call. Returns whether it contained input.
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
                .or_else(|| text_at(update, &["_meta", "goose", "toolCall", "toolName"]))
                .or_else(|| text_at(update, &["_meta", "toolName"])),
        );
        keep(&mut call.title, text(update, "title"));
        // `other` does not identify a tool: allowing it would allow everything.
        keep(&mut call.kind, text(update, "kind").filter(|kind| *kind != "other"));
        if call.subagent.is_none() {
            call.subagent = subagent.cloned();
        }
        if let Some(output) = update.get("rawOutput").filter(|output| !output.is_null()) {
            call.output = output.clone();
        }
        // Empty content does not replace earlier content: gemini ends calls with it.
        let content = list(update, "content");
        if content.iter().any(|part| text_at(part, &["content", "text"]) != Some("")) {
            call.content = content.to_vec();
        }
        let located = list(update, "locations").iter().chain(content);
        let files = located.filter_map(|part| Some(json!({ "path": text(part, "path")? })));
        for file in files {
            if !call.locations.contains(&file) {
                call.locations.push(file);
            }
        }
        let exit = update.get("rawOutput").and_then(|output| output.get("exit_code"));
        let exit = exit.or_else(|| update.get("_meta")?.get("terminal_exit")?.get("exit_code"));
        call.exit = exit.and_then(Value::as_i64).or(call.exit);
        if let Some(piece) = text_at(update, &["_meta", "terminal_output_delta", "data"]) {
            call.printed.push_str(piece);
            let from = call.printed.len() - end_of(&call.printed, MAX_PRINTED).len();
            call.printed.drain(..from);
        }
        let input = update.get("rawInput");
        if let Some(input) = input.filter(|input| !is_empty(input)) {
            call.input = input.clone();
        }
        input.is_some()
    }

    fn publish(&mut self, id: &str) -> Option<RawEvent> {
        let call = self.open.get_mut(id).filter(|call| !call.published)?;
        let tool_call_id = ToolCallId::parse(id).ok()?;
        call.published = true;
        let content = AssistantContent::ToolUse {
            tool_call_id,
            tool_name: call.tool_name(),
            input: call.published_input(),
        };
        Some(match &call.subagent {
            Some(subagent_id) => RawEvent::SubagentMessage { subagent_id: subagent_id.clone(), content },
            None => RawEvent::AssistantMessage { content, turn_id: None },
        })
    }

    fn close(&mut self, id: &str, is_error: bool, printed: Printed) -> Option<RawEvent> {
        let tool_call_id = ToolCallId::parse(id).ok()?;
        if !is_error {
            let ProposedCall { tool, kind, arguments, .. } = self.proposed(&tool_call_id, &Value::Null);
            let call =
                ToolCall { adapter: Adapter::Acp, tool: &tool, kind: kind.as_deref(), arguments: &arguments };
            let paths: Vec<_> = written_files(&call).into_iter().map(str::to_owned).collect();
            if !paths.is_empty() {
                self.written.push((tool_call_id.clone(), paths));
            }
        }
        let call = self.open.remove(id)?;
        self.order.retain(|open| open != id);
        self.closed.insert(id.to_owned());
        Some(RawEvent::ToolResult {
            tool_call_id,
            content: call.result(printed),
            is_error,
            subagent_id: call.subagent,
        })
    }
}

impl Call {
    fn tool_name(&self) -> String {
        self.known_name().unwrap_or_else(|| {
            let named = [&self.kind, &self.title].into_iter().flatten().next();
            cut(named.map_or("tool", String::as_str), MAX_NAME)
        })
    }

    /// The name that the agent gives the tool.
    fn known_name(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        let known = KNOWN_AS.iter().find(|(known, _)| *known == name);
        Some(known.map_or_else(|| cut(name, MAX_NAME), |(_, name)| (*name).to_owned()))
    }

    /// The input, or what the agent shows of the call if it sends no input.
    fn published_input(&self) -> Value {
        if !is_empty(&self.input) {
            return self.input.clone();
        }
        match &self.title {
            Some(title) if self.name.as_ref() != Some(title) => json!({ "title": title }),
            _ => json!({}),
        }
    }

    /// The tool's result. The output of its command takes precedence over the call's content, which may still be the
    /// question for a permission.
    fn result(&self, printed: Printed) -> Content {
        if let Value::String(text) = &self.output {
            return Content::Text(text.clone());
        }
        let command = OUTPUTS.iter().filter_map(|key| text(&self.output, key));
        if let Some(output) =
            command.into_iter().chain([self.printed.as_str()]).find(|output| !output.is_empty())
        {
            return Content::Text(output.to_owned());
        }
        if let Some(code) = self.exit {
            return Content::Text(if code == 0 { String::new() } else { format!("exit code {code}") });
        }
        let words: Option<Vec<String>> = self.content.iter().map(|part| shown(part, printed)).collect();
        match words {
            Some(words) if !words.is_empty() => Content::Text(words.join("\n")),
            None => Content::Json(Value::Array(self.content.clone())),
            Some(_) if self.output.is_null() => Content::Text(String::new()),
            Some(_) => {
                words_of(&self.output).map_or_else(|| Content::Json(self.output.clone()), Content::Text)
            }
        }
    }
}

/// The text of an MCP tool's result, in the form `{"result": {"content": [{"text": …}]}}`.
fn words_of(output: &Value) -> Option<String> {
    let parts = list(output, "content");
    if !parts.is_empty() {
        let words: Option<Vec<&str>> = parts.iter().map(|part| text(part, "text")).collect();
        return words.map(|words| words.join("\n"));
    }
    ["result", "Ok"].iter().find_map(|key| words_of(output.get(key)?))
}

/// A part of a call's content as text. `None` for diffs and images.
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
mod tests;
