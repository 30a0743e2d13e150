//! `system` lines: messages of the runtime about itself.

use serde_json::Value;

use super::Ignored;
use super::subagents::SubagentStart;
use super::translated::Translated;
use super::translator::Translator;
use crate::kit::json::{count, first_text, flag, one_line, text};

impl Translator {
    pub(super) fn system(&mut self, line: &Value, out: &mut Translated) {
        match text(line, "subtype") {
            Some("init") => self.init(line, out),
            Some("status") => {
                if let Some(why) = status(line, out) {
                    self.compaction_failure = Some(why);
                }
            }
            Some("thinking_tokens") => out.ignore(Ignored::ThinkingTokens),
            Some("session_state_changed") => out.ignore(Ignored::SessionStateChanged),
            Some("task_started") => self.task_started(line, out),
            Some("task_progress") => out.ignore(Ignored::SubagentProgress),
            Some("task_updated") => {
                let patch = line.get("patch").unwrap_or(&Value::Null);
                self.task_changed(line, patch, out);
            }
            Some("task_notification") => self.task_changed(line, line, out),
            Some("api_retry") => out.notice("api_retry", retry_summary(line), line),
            Some("model_fallback") => {
                if let Some(model) = text(line, "fallback_model") {
                    self.meter.model(model);
                }
                out.notice("model_fallback", said(line, "The agent switched to another model"), line);
            }
            Some("informational") => {
                out.notice("informational", said(line, "A note of the agent's runtime"), line);
            }
            Some("compact_boundary") => self.compacted(line, out),
            Some("permission_denied") => {
                let call = text(line, "tool_use_id").unwrap_or_default();
                let why = first_text(line, &["message", "reason", "content"]);
                self.deny(call, text(line, "tool_name"), why, line, out);
            }
            Some(other) => out.unknown(&format!("system_{other}"), line),
            None => out.unknown("system", line),
        }
    }

    fn init(&mut self, line: &Value, out: &mut Translated) {
        if let Some(model) = text(line, "model") {
            self.meter.model(model);
        }
        // The runtime sends `init` when it starts to process a prompt, never while it waits for one.
        self.main_loop_works(out);
        out.ignore(Ignored::RepeatedInit);
    }

    fn task_started(&mut self, line: &Value, out: &mut Translated) {
        // Background shells and monitors are tasks as well, but not subagents.
        let is_agent = match text(line, "task_type") {
            Some(kind) => kind.contains("agent"),
            None => line.get("subagent_type").is_some(),
        };
        if !is_agent {
            let what = first_text(line, &["description", "task_type"]).unwrap_or("something");
            return out.notice("background_task", format!("In the background: {}", one_line(what)), line);
        }
        let call = text(line, "tool_use_id");
        let input = call.and_then(|call| self.calls.get(call)).map_or(&Value::Null, |call| &call.input);
        let beginning = SubagentStart {
            task_id: text(line, "task_id"),
            call,
            model: text(input, "model"),
            objective: first_text(line, &["prompt", "description"]),
            in_background: flag(line, "is_backgrounded") || flag(input, "run_in_background"),
        };
        if self.subagents.begin(&beginning, out).is_none() {
            out.unknown("task_started", line);
        }
        out.ignore(Ignored::TaskDetail);
    }

    /// `task_updated` or `task_notification`; `change` contains the new status.
    fn task_changed(&mut self, line: &Value, change: &Value, out: &mut Translated) {
        let Some(task) = text(line, "task_id") else { return };
        if flag(change, "is_backgrounded") {
            self.subagents.backgrounded(task);
        }
        let failure = match text(change, "status") {
            Some("completed") => None,
            Some(status @ ("failed" | "killed" | "stopped" | "cancelled")) => {
                let why = first_text(change, &["error"]).or_else(|| first_text(line, &["error", "summary"]));
                Some(why.map_or_else(|| status.to_owned(), one_line))
            }
            _ => return out.ignore(Ignored::TaskDetail),
        };
        if !self.subagents.knows(task) {
            let summary = first_text(line, &["summary", "description"]).unwrap_or("ended");
            return out.notice("background_task", format!("In the background: {}", one_line(summary)), line);
        }
        if self.subagents.end(task, failure.as_deref(), out) {
            if let Some(turn) = &mut self.turn {
                turn.subagent_interrupted |= self.interrupt_requested && failure.is_some();
            }
            self.complete_if_idle(out);
        } else {
            out.ignore(Ignored::SubagentAlreadyEnded);
        }
    }

    fn compacted(&mut self, line: &Value, out: &mut Translated) {
        let metadata = line.get("compact_metadata").unwrap_or(&Value::Null);
        let how = text(metadata, "trigger").unwrap_or("unknown");
        let before = count(metadata, "pre_tokens");
        let after = count(metadata, "post_tokens");
        let summary = match (before, after) {
            (Some(before), Some(after)) => {
                format!("The context was compacted ({how}): {before} tokens before, {after} after")
            }
            (Some(before), None) => format!("The context was compacted ({how}): {before} tokens before"),
            _ => format!("The context was compacted ({how})"),
        };
        if let Some(after) = after {
            self.meter.compacted(after);
        }
        out.notice("compact_boundary", summary, line);
    }
}

/// `status` reports a call in progress, a changed permission mode, or the end of a compaction. Returns why a compaction
/// failed.
fn status(line: &Value, out: &mut Translated) -> Option<String> {
    let mut failure = None;
    if let Some(mode) = text(line, "permissionMode") {
        out.notice("permission_mode", format!("The agent's permission mode is now {mode}"), line);
    }
    if let Some(result) = text(line, "compact_result").filter(|result| *result != "success") {
        let why =
            first_text(line, &["compact_error", "error"]).map_or_else(String::new, |why| format!(": {why}"));
        failure = Some(one_line(&format!("the context was not compacted ({result}){why}")));
        out.notice("compaction_failed", format!("The context was not compacted ({result}){why}"), line);
    }
    // A successful compaction is reported by its boundary message.
    out.ignore(Ignored::StatusPing);
    failure
}

fn said(line: &Value, otherwise: &str) -> String {
    first_text(line, &["content", "message"]).map_or_else(|| otherwise.to_owned(), one_line)
}

fn retry_summary(line: &Value) -> String {
    let error = text(line, "error").unwrap_or("unknown");
    let what = match count(line, "error_status") {
        Some(status) => format!("{status} {error}"),
        None => format!("{error} error"),
    };
    let delay = count(line, "retry_delay_ms").unwrap_or(0);
    format!(
        "The model call failed ({what}); retry {} of {} in {}.{} s",
        count(line, "attempt").unwrap_or(0),
        count(line, "max_retries").unwrap_or(0),
        delay / 1000,
        delay % 1000 / 100,
    )
}
