//! The hooks by which the binary asks before it goes on, and how a pause is made of them.
//!
//! The binary asks before each tool (`PreToolUse`), before the model call that follows a batch of tools (`PostToolBatch`), and
//! before a prompt is taken up (`UserPromptSubmit`). A pause holds these answers. What is under way ends; nothing new begins.
//! The agent counts as still when nobody in it can begin anything without an answer: each worker, which is the main loop and
//! every subagent, is held, or only runs tools (ruling 15).

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::super::json::text;

/// The hooks that are registered. Their name is the callback's id too.
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
/// Seconds that an answer may take: three weeks, longer than any pause. The binary's timers hold no more than 2^31 milliseconds;
/// a longer one fires at once.
const TIMEOUT: u64 = 21 * 24 * 3600;

/// What the agent may do at its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mode {
    /// Go on.
    #[default]
    Open,
    /// Wait.
    Paused,
    /// Nothing more, until somebody says something.
    Stopped,
}

/// Who asks: a subagent by its id, or the main loop.
type Worker = Option<String>;

#[derive(Debug)]
struct Held {
    request: String,
    event: String,
    worker: Worker,
}

/// What is known of a worker.
#[derive(Debug, Default)]
struct Doing {
    /// A model call may be under way.
    calls_model: bool,
    /// Tools that were let go and have not ended.
    tools: HashSet<String>,
}

/// What an asking hook comes to.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The answer, unless it is held.
    pub answer: Option<Value>,
    /// The prompt that is about to be taken up.
    pub prompt: Option<String>,
    /// A batch of tools has ended; the next model call follows.
    pub batch_ended: bool,
    /// A prompt of the binary's own is not taken up: what it still says of it is no turn.
    pub prompt_refused: bool,
}

/// Holds the agent.
#[derive(Debug, Default)]
pub(super) struct Gate {
    mode: Mode,
    held: Vec<Held>,
    doing: HashMap<Worker, Doing>,
}

impl Gate {
    /// What `initialize` registers.
    pub(super) fn hooks() -> Value {
        EVENTS
            .iter()
            .map(|event| ((*event).to_owned(), json!([{ "hookCallbackIds": [event], "timeout": TIMEOUT }])))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// What it may do.
    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    /// From here on what begins is held.
    pub(super) const fn pause(&mut self) {
        self.mode = Mode::Paused;
    }

    /// Lets it go on: the answers to all that was held.
    pub(super) fn open(&mut self) -> Vec<(String, Value)> {
        self.mode = Mode::Open;
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|held| (held.request.clone(), self.go_on(&held.event, &held.worker))).collect()
    }

    /// Ends it: the answers that let nothing begin.
    pub(super) fn stop(&mut self) -> Vec<(String, Value)> {
        self.mode = Mode::Stopped;
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|held| (held.request, stopping(&held.event))).collect()
    }

    /// The binary no longer wants an answer.
    pub(super) fn cancelled(&mut self, request: &str) {
        self.held.retain(|held| held.request != request);
    }

    /// A new process: nothing of the old one is known.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.doing.clear();
    }

    /// The turn is over; so is what its main loop did.
    pub(super) fn turn_ended(&mut self) {
        self.doing.remove(&None);
    }

    /// A `hook_callback`; `ours`: the prompt that it tells of was written by the adapter.
    pub(super) fn ask(&mut self, request: &str, asked: &Value, ours: impl Fn(&str) -> bool) -> Asked {
        let input = asked.get("input").unwrap_or(&Value::Null);
        let event = text(asked, "callback_id").unwrap_or_default().to_owned();
        let worker: Worker = text(input, "agent_id").map(str::to_owned);
        let call = text(asked, "tool_use_id").or_else(|| text(input, "tool_use_id")).unwrap_or_default();
        let mut out = Asked::default();
        match event.as_str() {
            "UserPromptSubmit" => out.prompt = text(input, "prompt").map(str::to_owned),
            "PostToolBatch" => {
                out.batch_ended = worker.is_none();
                self.doing.entry(worker.clone()).or_default().tools.clear();
            }
            "PreToolUse" if worker.is_some() => {
                // Subagents do not stream: a call is what the end of their model call looks like.
                self.doing.entry(worker.clone()).or_default().calls_model = false;
            }
            "PostToolUse" | "PostToolUseFailure" | "PermissionDenied" => {
                self.doing.entry(worker.clone()).or_default().tools.remove(call);
            }
            "SubagentStart" => self.doing.entry(worker.clone()).or_default().calls_model = true,
            "SubagentStop" => {
                self.doing.remove(&worker);
            }
            _ => {}
        }
        let begins =
            matches!(event.as_str(), "UserPromptSubmit" | "PreToolUse" | "PostToolBatch" | "SubagentStart");
        let by_us = out.prompt.as_deref().is_some_and(ours);
        match self.mode {
            Mode::Paused if begins => {
                self.held.push(Held { request: request.to_owned(), event, worker });
            }
            Mode::Stopped if begins && !by_us => {
                out.prompt_refused = out.prompt.is_some();
                out.answer = Some(stopping(&event));
            }
            _ => {
                if event == "PreToolUse" {
                    self.doing.entry(worker.clone()).or_default().tools.insert(call.to_owned());
                }
                out.answer = Some(self.go_on(&event, &worker));
            }
        }
        out
    }

    fn go_on(&mut self, event: &str, worker: &Worker) -> Value {
        if matches!(event, "UserPromptSubmit" | "PostToolBatch" | "SubagentStart") {
            self.doing.entry(worker.clone()).or_default().calls_model = true;
        }
        json!({})
    }

    /// What the main loop's stream says of its model calls.
    pub(super) fn stream(&mut self, line: &Value) {
        if text(line, "parent_tool_use_id").is_some() {
            return;
        }
        let calls_model = match line.get("event").and_then(|event| text(event, "type")) {
            Some("message_start") => true,
            Some("message_stop") => false,
            _ => return,
        };
        self.doing.entry(None).or_default().calls_model = calls_model;
    }

    /// Whether nobody can begin anything without an answer. `turn`: a turn is open; `subagents`: who works.
    pub(super) fn is_still<'a>(&self, turn: bool, subagents: impl IntoIterator<Item = &'a str>) -> bool {
        let still = |worker: Worker| {
            let held = self.held.iter().any(|held| held.worker == worker);
            self.doing
                .get(&worker)
                .map_or(held, |doing| !doing.calls_model && (held || !doing.tools.is_empty()))
        };
        (!turn || still(None)) && subagents.into_iter().all(|id| still(Some(id.to_owned())))
    }
}

/// The answer that lets nothing begin.
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
            "input": { "hook_event_name": event, "agent_id": agent, "prompt": "hello" } })
    }

    fn stream(event: &str) -> Value {
        json!({ "type": "stream_event", "event": { "type": event }, "parent_tool_use_id": null })
    }

    fn ask(gate: &mut Gate, request: &str, event: &str, agent: Option<&str>, call: &str) -> Option<Value> {
        gate.ask(request, &hook(event, agent, call), |_| false).answer
    }

    const NOBODY: [&str; 0] = [];

    #[test]
    fn an_agent_in_a_model_call_is_not_still_until_it_asks_to_go_on() {
        let mut gate = Gate::default();
        assert_eq!(ask(&mut gate, "1", "UserPromptSubmit", None, ""), Some(json!({})));
        gate.stream(&stream("message_start"));
        gate.pause();
        assert!(!gate.is_still(true, NOBODY), "the model speaks");
        assert_eq!(ask(&mut gate, "2", "PreToolUse", None, "a"), None);
        assert!(!gate.is_still(true, NOBODY), "a tool waits, and the model goes on speaking");
        gate.stream(&stream("message_stop"));
        assert!(gate.is_still(true, NOBODY));
        assert_eq!(gate.open(), [("2".to_owned(), json!({}))]);
    }

    #[test]
    fn tools_under_way_end_and_the_call_after_them_is_held() {
        let mut gate = Gate::default();
        gate.stream(&stream("message_start"));
        ask(&mut gate, "1", "PreToolUse", None, "a");
        gate.stream(&stream("message_stop"));
        gate.pause();
        assert!(gate.is_still(true, NOBODY), "only a tool runs");
        assert_eq!(ask(&mut gate, "2", "PostToolUse", None, "a"), Some(json!({})));
        assert!(!gate.is_still(true, NOBODY), "what comes next is not known yet");
        assert_eq!(ask(&mut gate, "3", "PostToolBatch", None, "x"), None);
        assert!(gate.is_still(true, NOBODY));
        gate.open();
        assert!(!gate.is_still(true, NOBODY), "the model is called");
    }

    #[test]
    fn each_subagent_has_to_be_held_too() {
        let mut gate = Gate::default();
        ask(&mut gate, "1", "PreToolUse", None, "task");
        ask(&mut gate, "2", "SubagentStart", Some("s"), "");
        gate.pause();
        assert!(!gate.is_still(true, ["s"]), "its model speaks");
        assert_eq!(ask(&mut gate, "3", "PreToolUse", Some("s"), "b"), None);
        assert!(gate.is_still(true, ["s"]));
        assert!(!gate.is_still(true, ["s", "t"]), "nothing is known of the other one");
        gate.open();
        assert_eq!(ask(&mut gate, "4", "SubagentStop", Some("s"), ""), Some(json!({})));
        assert!(gate.is_still(false, NOBODY), "between turns nobody works");
    }

    #[test]
    fn after_a_stop_nothing_begins_but_what_the_owner_says() {
        let mut gate = Gate::default();
        gate.pause();
        ask(&mut gate, "1", "PostToolBatch", None, "");
        let stopped = gate.stop();
        assert_eq!(stopped[0].1["continue"], false);
        let denied = ask(&mut gate, "2", "PreToolUse", None, "a").unwrap();
        assert_eq!(denied["hookSpecificOutput"]["permissionDecision"], "deny");
        let own = gate.ask("3", &hook("UserPromptSubmit", None, ""), |prompt| prompt == "hello");
        assert_eq!((own.answer, own.prompt.as_deref()), (Some(json!({})), Some("hello")));
        assert_eq!(ask(&mut gate, "4", "UserPromptSubmit", None, "").unwrap()["continue"], false);
    }

    #[test]
    fn what_the_binary_no_longer_asks_is_not_answered() {
        let mut gate = Gate::default();
        gate.pause();
        ask(&mut gate, "1", "PreToolUse", None, "a");
        gate.cancelled("1");
        assert_eq!(gate.open(), []);
    }
}
