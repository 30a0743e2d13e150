//! The hooks with which Claude Code asks before it proceeds. They implement pause and interrupt.
//!
//! Claude Code asks before each tool (`PreToolUse`), before the model call that follows a batch of tools
//! (`PostToolBatch`), and before it processes a prompt (`UserPromptSubmit`). A pause withholds the answers: work in
//! progress ends, and nothing new begins. The agent is idle once no part of it can begin anything without an answer
//! and no tool runs: each worker, that is the main loop and every subagent, is held or waits for its owner or a
//! subagent (decision 15).

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::kit::json::text;
use crate::kit::tool_names::{ASK_USER_QUESTION, EXIT_PLAN_MODE};

/// The registered hooks. The name is also the callback id.
const EVENTS: [&str; 8] = [
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "SubagentStart",
    "SubagentStop",
    "PermissionDenied",
];
/// Tools that only wait for a subagent or the owner.
const WAITING: [&str; 4] = ["Task", "Agent", ASK_USER_QUESTION, EXIT_PLAN_MODE];
/// Timeout of an answer in seconds: three weeks, longer than any pause. Claude Code's timers are limited to 2^31
/// milliseconds; a longer one fires immediately.
const TIMEOUT: u64 = 21 * 24 * 3600;

/// Permission for the next step of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mode {
    #[default]
    Open,
    Paused,
    /// Refuse every step until the next message.
    Stopped,
}

/// A subagent by its id, or `None` for the main loop.
type Worker = Option<String>;

#[derive(Debug)]
struct HeldHook {
    request: String,
    event: String,
    worker: Worker,
}

/// Current activity of a worker.
#[derive(Debug, Default)]
struct Activity {
    /// A model call may be in progress.
    calls_model: bool,
    /// Tools that may run and have no result: the call, and whether it only waits.
    tools: HashMap<String, bool>,
}

#[derive(Debug, Default)]
pub(super) struct HookOutcome {
    /// The answer, unless it is withheld.
    pub answer: Option<Value>,
    /// The prompt that is about to be processed.
    pub prompt: Option<String>,
    /// A subagent calls a tool, so its model call has ended.
    pub subagent_model_call_ended: bool,
    /// A prompt of Claude Code itself was refused. Its remaining messages are not a turn.
    pub prompt_refused: bool,
}

/// Holds the agent by withholding answers.
#[derive(Debug, Default)]
pub(super) struct ToolHooks {
    mode: Mode,
    held: Vec<HeldHook>,
    activity: HashMap<Worker, Activity>,
}

impl ToolHooks {
    /// The hooks for the `initialize` request.
    pub(super) fn hooks() -> Value {
        EVENTS
            .iter()
            .map(|event| ((*event).to_owned(), json!([{ "hookCallbackIds": [event], "timeout": TIMEOUT }])))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) const fn pause(&mut self) {
        self.mode = Mode::Paused;
    }

    /// Lets the agent proceed. Returns the answers to all withheld requests.
    pub(super) fn open(&mut self) -> Vec<(String, Value)> {
        self.mode = Mode::Open;
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|held| (held.request.clone(), self.proceed(&held.event, &held.worker))).collect()
    }

    /// Stops the agent. Returns the answers that prevent further steps.
    pub(super) fn stop(&mut self) -> Vec<(String, Value)> {
        self.mode = Mode::Stopped;
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|held| (held.request, stopping(&held.event))).collect()
    }

    pub(super) fn cancelled(&mut self, request: &str) {
        self.held.retain(|held| held.request != request);
    }

    /// Forgets the state of the previous process.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.activity.clear();
    }

    /// Forgets the activity of the main loop, whose turn has ended.
    pub(super) fn turn_ended(&mut self) {
        self.activity.remove(&None);
    }

    /// Handles a `hook_callback`. `ours` returns whether the adapter wrote the prompt.
    pub(super) fn ask(&mut self, request: &str, asked: &Value, ours: impl Fn(&str) -> bool) -> HookOutcome {
        let input = asked.get("input").unwrap_or(&Value::Null);
        let event = text(asked, "callback_id").unwrap_or_default().to_owned();
        let worker: Worker = text(input, "agent_id").map(str::to_owned);
        let call = text(asked, "tool_use_id").or_else(|| text(input, "tool_use_id")).unwrap_or_default();
        let mut out = HookOutcome::default();
        match event.as_str() {
            "UserPromptSubmit" => out.prompt = text(input, "prompt").map(str::to_owned),
            "PostToolBatch" => {
                self.activity.entry(worker.clone()).or_default().tools.clear();
            }
            "PreToolUse" if worker.is_some() => {
                // Subagents do not stream, so a tool call marks the end of their model call.
                out.subagent_model_call_ended = true;
                self.activity.entry(worker.clone()).or_default().calls_model = false;
            }
            "PostToolUse" | "PostToolUseFailure" | "PermissionDenied" => {
                self.activity.entry(worker.clone()).or_default().tools.remove(call);
            }
            "SubagentStart" => self.activity.entry(worker.clone()).or_default().calls_model = true,
            "SubagentStop" => {
                self.activity.remove(&worker);
            }
            _ => {}
        }
        let begins =
            matches!(event.as_str(), "UserPromptSubmit" | "PreToolUse" | "PostToolBatch" | "SubagentStart");
        let by_us = out.prompt.as_deref().is_some_and(ours);
        match self.mode {
            Mode::Paused if begins => {
                self.held.push(HeldHook { request: request.to_owned(), event, worker });
            }
            Mode::Stopped if begins && !by_us => {
                out.prompt_refused = out.prompt.is_some();
                out.answer = Some(stopping(&event));
            }
            _ => {
                if event == "PreToolUse" {
                    let waits = text(input, "tool_name").is_some_and(|tool| WAITING.contains(&tool));
                    self.activity.entry(worker.clone()).or_default().tools.insert(call.to_owned(), waits);
                }
                out.answer = Some(self.proceed(&event, &worker));
            }
        }
        out
    }

    fn proceed(&mut self, event: &str, worker: &Worker) -> Value {
        if matches!(event, "UserPromptSubmit" | "PostToolBatch" | "SubagentStart") {
            self.activity.entry(worker.clone()).or_default().calls_model = true;
        }
        json!({})
    }

    /// Tracks the main loop's model calls from its stream events.
    pub(super) fn stream(&mut self, line: &Value) {
        if text(line, "parent_tool_use_id").is_some() {
            return;
        }
        let calls_model = match line.get("event").and_then(|event| text(event, "type")) {
            Some("message_start") => true,
            Some("message_stop") => false,
            _ => return,
        };
        self.activity.entry(None).or_default().calls_model = calls_model;
    }

    /// Whether a tool runs, or may be about to run.
    pub(super) fn runs_tools(&self) -> bool {
        self.activity.values().any(|activity| !activity.tools.is_empty())
    }

    /// Whether no part of the agent can begin anything without an answer, and no tool runs. `turn`: a turn is open;
    /// `subagents`: the running subagents; `waits`: whether a call waits for the owner.
    pub(super) fn is_still<'a>(
        &self,
        turn: bool,
        subagents: impl IntoIterator<Item = &'a str>,
        waits: impl Fn(&str) -> bool,
    ) -> bool {
        let still = |worker: Worker| {
            let held = self.held.iter().any(|held| held.worker == worker);
            let Some(activity) = self.activity.get(&worker) else { return held };
            let runs = activity.tools.iter().any(|(call, waiting)| !waiting && !waits(call));
            !activity.calls_model && !runs && (held || !activity.tools.is_empty())
        };
        (!turn || still(None)) && subagents.into_iter().all(|id| still(Some(id.to_owned())))
    }
}

/// The answer that prevents the next step.
fn stopping(event: &str) -> Value {
    const WHY: &str = "The owner of the session has interrupted it.";
    if event == "PreToolUse" {
        return json!({ "hookSpecificOutput": {
            "hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": WHY } });
    }
    json!({ "continue": false, "stopReason": WHY })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(event: &str, agent: Option<&str>, call: &str) -> Value {
        json!({ "subtype": "hook_callback", "callback_id": event, "tool_use_id": call,
            "input": { "hook_event_name": event, "agent_id": agent, "prompt": "hello",
                "tool_name": if call == "task" { "Task" } else { "Bash" } } })
    }

    fn stream(event: &str) -> Value {
        json!({ "type": "stream_event", "event": { "type": event }, "parent_tool_use_id": null })
    }

    fn ask(
        tool_hooks: &mut ToolHooks,
        request: &str,
        event: &str,
        agent: Option<&str>,
        call: &str,
    ) -> Option<Value> {
        tool_hooks.ask(request, &hook(event, agent, call), |_| false).answer
    }

    const NOBODY: [&str; 0] = [];

    fn is_still(tool_hooks: &ToolHooks, turn: bool, subagents: &[&str]) -> bool {
        tool_hooks.is_still(turn, subagents.iter().copied(), |_| false)
    }

    #[test]
    fn agent_in_a_model_call_is_running_until_its_next_hook() {
        let mut tool_hooks = ToolHooks::default();
        assert_eq!(ask(&mut tool_hooks, "1", "UserPromptSubmit", None, ""), Some(json!({})));
        tool_hooks.stream(&stream("message_start"));
        tool_hooks.pause();
        assert!(!is_still(&tool_hooks, true, &NOBODY), "the model speaks");
        assert_eq!(ask(&mut tool_hooks, "2", "PreToolUse", None, "a"), None);
        assert!(!is_still(&tool_hooks, true, &NOBODY), "a tool waits while the model continues its answer");
        tool_hooks.stream(&stream("message_stop"));
        assert!(is_still(&tool_hooks, true, &NOBODY));
        assert_eq!(tool_hooks.open(), [("2".to_owned(), json!({}))]);
    }

    #[test]
    fn running_tools_end_and_the_next_call_is_held() {
        let mut tool_hooks = ToolHooks::default();
        tool_hooks.stream(&stream("message_start"));
        ask(&mut tool_hooks, "1", "PreToolUse", None, "a");
        tool_hooks.stream(&stream("message_stop"));
        tool_hooks.pause();
        assert!(!is_still(&tool_hooks, true, &NOBODY), "a tool runs");
        assert!(tool_hooks.is_still(true, NOBODY, |call| call == "a"), "the tool waits for the owner");
        assert_eq!(ask(&mut tool_hooks, "2", "PostToolUse", None, "a"), Some(json!({})));
        assert!(!is_still(&tool_hooks, true, &NOBODY), "the next step is not known yet");
        assert_eq!(ask(&mut tool_hooks, "3", "PostToolBatch", None, "x"), None);
        assert!(is_still(&tool_hooks, true, &NOBODY));
        tool_hooks.open();
        assert!(!is_still(&tool_hooks, true, &NOBODY), "the model is called");
    }

    #[test]
    fn each_subagent_must_be_held_too() {
        let mut tool_hooks = ToolHooks::default();
        ask(&mut tool_hooks, "1", "PreToolUse", None, "task");
        ask(&mut tool_hooks, "2", "SubagentStart", Some("s"), "");
        tool_hooks.pause();
        assert!(!is_still(&tool_hooks, true, &["s"]), "its model speaks");
        assert_eq!(ask(&mut tool_hooks, "3", "PreToolUse", Some("s"), "b"), None);
        assert!(is_still(&tool_hooks, true, &["s"]));
        assert!(!is_still(&tool_hooks, true, &["s", "t"]), "nothing is known of the other one");
        tool_hooks.open();
        assert_eq!(ask(&mut tool_hooks, "4", "SubagentStop", Some("s"), ""), Some(json!({})));
        assert!(is_still(&tool_hooks, false, &NOBODY), "between turns nothing is running");
    }

    #[test]
    fn after_a_stop_only_owner_messages_start_anything() {
        let mut tool_hooks = ToolHooks::default();
        tool_hooks.pause();
        ask(&mut tool_hooks, "1", "PostToolBatch", None, "");
        let stopped = tool_hooks.stop();
        assert_eq!(stopped[0].1["continue"], false);
        let denied = ask(&mut tool_hooks, "2", "PreToolUse", None, "a").unwrap();
        assert_eq!(denied["hookSpecificOutput"]["permissionDecision"], "deny");
        let own = tool_hooks.ask("3", &hook("UserPromptSubmit", None, ""), |prompt| prompt == "hello");
        assert_eq!((own.answer, own.prompt.as_deref()), (Some(json!({})), Some("hello")));
        assert_eq!(ask(&mut tool_hooks, "4", "UserPromptSubmit", None, "").unwrap()["continue"], false);
    }

    #[test]
    fn withdrawn_request_is_not_answered() {
        let mut tool_hooks = ToolHooks::default();
        tool_hooks.pause();
        ask(&mut tool_hooks, "1", "PreToolUse", None, "a");
        tool_hooks.cancelled("1");
        assert_eq!(tool_hooks.open(), []);
    }
}
