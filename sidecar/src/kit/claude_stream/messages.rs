//! `assistant` and `user` lines: text, tool calls and tool results.

use pilothouse_domain::{SubAgentId, ToolCallId};
use pilothouse_wire::event::{AssistantContent, Content, RawEvent};
use serde_json::Value;

use super::Ignored;
use super::task_list::TaskFold;
use super::translated::{MessageState, Signal, Translated};
use super::translator::{Call, Translator};
use crate::kit::json::{flag, one_line, plain_text, text};

/// The model name of messages that the runtime wrote.
const SYNTHETIC: &str = "<synthetic>";

impl Translator {
    pub(super) fn assistant(&mut self, line: &Value, out: &mut Translated) {
        let Some(message) = line.get("message") else { return };
        let said = message.get("content").unwrap_or(&Value::Null);
        let parent = text(line, "parent_tool_use_id");
        let subagent = parent.and_then(|parent| self.subagent_of(parent, line, out));
        if parent.is_none() {
            self.main_loop_works(out);
        }
        // The runtime writes it on the model's behalf, so it is not a message of the agent.
        let synthetic = text(message, "model") == Some(SYNTHETIC);
        let failure = flag(line, "is_api_error_message") || text(line, "error").is_some();
        if failure && (synthetic || flag(line, "is_api_error_message")) {
            let summary = plain_text(said).unwrap_or_else(|| "The model call failed".to_owned());
            return out.notice("api_error", one_line(&summary), line);
        }
        if synthetic {
            return runtime_message(said, line, out);
        }
        match said {
            Value::String(s) if s.is_empty() => {}
            Value::String(s) => {
                self.say(AssistantContent::Text { text: s.as_str().into() }, subagent.as_ref(), out);
            }
            Value::Array(blocks) => {
                for block in blocks {
                    self.block(block, subagent.as_ref(), out);
                }
            }
            _ => {}
        }
        if let Some(error) = text(line, "error") {
            out.notice("api_error", format!("The model call failed: {}", one_line(error)), line);
        }
        if parent.is_none() {
            self.meter.message(message, out);
        }
        out.ignore(Ignored::EmptyMessage);
    }

    fn block(&mut self, block: &Value, subagent: Option<&SubAgentId>, out: &mut Translated) {
        match text(block, "type") {
            Some("text") => match text(block, "text").filter(|s| !s.is_empty()) {
                Some(s) => self.say(AssistantContent::Text { text: s.into() }, subagent, out),
                None => out.ignore(Ignored::EmptyMessage),
            },
            Some("thinking") => match text(block, "thinking").filter(|s| !s.is_empty()) {
                Some(s) => self.say(AssistantContent::Thinking { text: s.into() }, subagent, out),
                None => out.ignore(Ignored::EmptyMessage),
            },
            Some("redacted_thinking") => out.ignore(Ignored::RedactedThinking),
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => self.tool_use(block, subagent, out),
            Some(kind) if kind.ends_with("_tool_result") => {
                self.tool_result(block, &Value::Null, subagent, out);
            }
            other => out.unknown(&format!("block_{}", other.unwrap_or("without_type")), block),
        }
    }

    fn tool_use(&mut self, block: &Value, subagent: Option<&SubAgentId>, out: &mut Translated) {
        let (Some(Ok(tool_call_id)), Some(tool)) =
            (text(block, "id").map(ToolCallId::parse), text(block, "name"))
        else {
            return out.unknown("tool_use", block);
        };
        let input = block.get("input").cloned().unwrap_or_default();
        if subagent.is_none() {
            let call = Call { tool: tool.to_owned(), input: input.clone() };
            self.calls.insert(tool_call_id.as_str().to_owned(), call);
        }
        let content = AssistantContent::ToolUse { tool_call_id, tool_name: tool.to_owned(), input };
        self.say(content, subagent, out);
    }

    fn say(&self, content: AssistantContent, subagent: Option<&SubAgentId>, out: &mut Translated) {
        out.push(match subagent {
            Some(id) => RawEvent::SubagentMessage { subagent_id: id.clone(), content },
            None => RawEvent::AssistantMessage { content, turn_id: self.turn_id().cloned() },
        });
    }

    pub(super) fn user(&mut self, line: &Value, out: &mut Translated) {
        if flag(line, "isReplay") {
            if let Some(uuid) = text(line, "uuid") {
                // The runtime repeats a message when the model receives it.
                let state = MessageState::Started;
                out.signals.push(Signal::Message { uuid: uuid.to_owned(), state });
            }
            return out.ignore(Ignored::Replay);
        }
        let said = line.get("message").and_then(|message| message.get("content")).unwrap_or(&Value::Null);
        let parent = text(line, "parent_tool_use_id");
        let subagent = parent.and_then(|parent| self.subagent_of(parent, line, out));
        if let Some(words) = plain_text(said) {
            return self.user_words(&words, subagent.as_ref(), line, out);
        }
        for block in said.as_array().into_iter().flatten() {
            match text(block, "type") {
                Some("tool_result") => self.tool_result(block, line, subagent.as_ref(), out),
                // Text, images and documents next to results come from the user or the runtime.
                Some("text" | "image" | "document") => out.ignore(Ignored::UserPrompt),
                other => out.unknown(&format!("block_{}", other.unwrap_or("without_type")), block),
            }
        }
    }

    fn user_words(&mut self, words: &str, subagent: Option<&SubAgentId>, line: &Value, out: &mut Translated) {
        if words.trim_start().starts_with("[Request interrupted by user") {
            if let Some(turn) = &mut self.turn {
                turn.interrupt_marked = true;
            }
            out.ignore(Ignored::UserPrompt);
        } else if subagent.is_some() {
            out.ignore(Ignored::SubagentPrompt);
        } else if flag(line, "isSynthetic") {
            out.notice("runtime_message", one_line(words), line);
        } else {
            out.ignore(Ignored::UserPrompt);
        }
    }

    fn tool_result(
        &mut self,
        block: &Value,
        line: &Value,
        subagent: Option<&SubAgentId>,
        out: &mut Translated,
    ) {
        let Some(Ok(id)) = text(block, "tool_use_id").map(ToolCallId::parse) else {
            return out.unknown("tool_result", block);
        };
        let is_error = flag(block, "is_error");
        let said = block.get("content").unwrap_or(&Value::Null);
        let content = match (said, plain_text(said)) {
            (_, Some(words)) => Content::Text(words),
            (Value::Null, None) => Content::Text(String::new()),
            (other, None) => Content::Json(other.clone()),
        };
        let words = content.text().into_owned();
        let call = if subagent.is_none() { self.calls.remove(id.as_str()) } else { None };
        out.push(RawEvent::ToolResult {
            tool_call_id: id.clone(),
            content,
            is_error,
            subagent_id: subagent.cloned(),
        });
        if was_rejected(line, id.as_str()) {
            let tool = call.as_ref().map(|call| call.tool.as_str());
            self.deny(id.as_str(), tool, Some(&words), line, out);
        }
        if subagent.is_some() {
            return;
        }
        let outcome = line.get("tool_use_result").unwrap_or(&Value::Null);
        if let Some(call) = call.filter(|call| !is_error && TaskFold::concerns(&call.tool))
            && let Some(snapshot) = self.tasks.result(&call.tool, &call.input, outcome, &words)
        {
            out.push(snapshot);
        }
        // A subagent call that runs in the background only reports its start.
        if text(outcome, "status") == Some("async_launched") {
            self.subagents.call_backgrounded(id.as_str());
        }
        self.subagents.call_ended(id.as_str(), is_error.then_some(words.as_str()), out);
    }
}

/// Whether the runtime reports that the call was not allowed.
fn was_rejected(line: &Value, call: &str) -> bool {
    let metas = line.get("tool_result_meta").and_then(Value::as_array);
    metas.into_iter().flatten().filter(|meta| text(meta, "id") == Some(call)).any(|meta| {
        meta.get("permission_decision").and_then(|decision| text(decision, "decision")) == Some("reject")
    })
}

fn runtime_message(said: &Value, line: &Value, out: &mut Translated) {
    match plain_text(said).filter(|words| !words.trim().is_empty()) {
        Some(words) => out.notice("runtime_message", one_line(&words), line),
        None => out.ignore(Ignored::EmptyMessage),
    }
}
