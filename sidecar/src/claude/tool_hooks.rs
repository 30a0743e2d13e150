//! The hooks with which Claude Code asks before it proceeds. They implement pause and interrupt.
//!
//! Claude Code asks before each tool (`PreToolUse`), before the model call that follows a batch of tools
//! (`PostToolBatch`), and before it processes a prompt (`UserPromptSubmit`). A pause withholds the answers: work in
//! progress ends, and nothing new begins. The agent is idle once no part of it can begin anything without an answer
//! and no tool runs: each worker, that is the main loop and every subagent, is held or waits for its owner or a
//! subagent (decision 15).
//!
//! A call that delegates work against the policy of the brief is denied at once, and so is each call of a subagent that the policy
//! does not allow (decision 92).
//!
//! In a project, the answer before a tool is also withheld until the control plane has given its verdict (decision 75).

use std::collections::HashMap;

use pilothouse_domain::ToolCallId;
use pilothouse_domain::project_agent::{Delegation, DelegationDenied, DelegationPolicy};
use serde_json::{Value, json};

use crate::kit::authorizer::{Authorization, ProposedCall};
use crate::kit::delegation::{SUBAGENT_TOOLS, called_subagent};
use crate::kit::json::text;
use crate::tool_names::{ASK_USER_QUESTION, EXIT_PLAN_MODE, is_exempt};

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
const WAITING: [&str; 3] = [ASK_USER_QUESTION, EXIT_PLAN_MODE, "mcp__pilothouse__request_decision"];
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
    gate: Gate,
}

/// What a held hook waits for, besides the end of a pause.
#[derive(Debug)]
enum Gate {
    Nothing,
    /// For a verdict that the adapter must ask for after the pause.
    Unasked(ProposedCall),
    /// For the verdict of the control plane.
    Verdict(ProposedCall),
    /// For nothing: the verdict arrived during the pause.
    Decided(ProposedCall, Authorization),
}

/// Current activity of a worker.
#[derive(Debug, Default)]
struct Activity {
    /// Nesting depth of the worker; 0 is the main loop.
    depth: u32,
    /// A model call may be in progress.
    calls_model: bool,
    /// Tools that may run and have no result, by call.
    tools: HashMap<String, OpenTool>,
}

/// The activity of a tool that has no result yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenTool {
    Runs,
    WaitsForOwner,
    WaitsForSubagent,
}

impl OpenTool {
    fn of(tool: &str) -> Self {
        if SUBAGENT_TOOLS.contains(&tool) {
            Self::WaitsForSubagent
        } else if WAITING.contains(&tool) {
            Self::WaitsForOwner
        } else {
            Self::Runs
        }
    }
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
    /// The hook is withheld until [`ToolHooks::decide`] gets the verdict on this call.
    pub authorize: Option<ProposedCall>,
}

/// The consequences of the end of a pause.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub answers: Vec<(String, Value)>,
    /// Calls that need verdicts, with the requests of their hooks.
    pub authorize: Vec<(String, ProposedCall)>,
}

/// Holds the agent by withholding answers.
#[derive(Debug, Default)]
pub(super) struct ToolHooks {
    /// Whether the control plane authorizes tool calls.
    governed: bool,
    delegation: Option<DelegationPolicy>,
    mode: Mode,
    held: Vec<HeldHook>,
    activity: HashMap<Worker, Activity>,
}

impl ToolHooks {
    pub(super) fn new(governed: bool) -> Self {
        Self { governed, ..Self::default() }
    }

    /// Applies the delegation policy of the current configuration.
    pub(super) fn restrict(&mut self, policy: Option<DelegationPolicy>) {
        self.delegation = policy;
    }

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

    /// Lets the agent proceed.
    pub(super) fn open(&mut self) -> Released {
        self.mode = Mode::Open;
        let mut released = Released::default();
        for held in std::mem::take(&mut self.held) {
            match held.gate {
                Gate::Nothing => {
                    let answer = self.proceed(&held.event, &held.worker);
                    released.answers.push((held.request, answer));
                }
                Gate::Unasked(call) => {
                    released.authorize.push((held.request.clone(), call.clone()));
                    self.held.push(HeldHook { gate: Gate::Verdict(call), ..held });
                }
                Gate::Verdict(_) => self.held.push(held),
                Gate::Decided(call, authorization) => {
                    let answer = self.after_verdict(&call, held.worker, &authorization);
                    released.answers.push((held.request, answer));
                }
            }
        }
        released
    }

    /// Takes the verdict on the call of a hook. Returns the answer, unless it is withheld or no longer awaited.
    pub(super) fn decide(&mut self, request: &str, authorization: &Authorization) -> Option<Value> {
        let at = self.held.iter().position(|held| held.request == request)?;
        let held = self.held.remove(at);
        match held.gate {
            Gate::Verdict(call) if self.mode == Mode::Paused => {
                let gate = Gate::Decided(call, authorization.clone());
                self.held.push(HeldHook { gate, ..held });
                None
            }
            Gate::Verdict(call) => Some(self.after_verdict(&call, held.worker, authorization)),
            _ => {
                self.held.push(held);
                None
            }
        }
    }

    fn after_verdict(&mut self, call: &ProposedCall, worker: Worker, authorization: &Authorization) -> Value {
        if let Authorization::Deny(why) = authorization {
            return permission("deny", Some(why));
        }
        self.tool_begins(worker, call.id.as_str(), &call.tool);
        let decision = if *authorization == Authorization::Allow { "allow" } else { "ask" };
        permission(decision, None)
    }

    fn tool_begins(&mut self, worker: Worker, call: &str, tool: &str) {
        self.activity.entry(worker).or_default().tools.insert(call.to_owned(), OpenTool::of(tool));
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
        if event == "PreToolUse"
            && let Err(denied) = self.check_delegation(input, &worker)
        {
            out.answer = Some(permission("deny", Some(&denied.to_string())));
            return out;
        }
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
            "SubagentStart" => {
                let depth = 1 + self.deepest_waiting();
                let activity = self.activity.entry(worker.clone()).or_default();
                (activity.depth, activity.calls_model) = (depth, true);
            }
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
                let gate = match self.proposed(&event, input, call) {
                    Ok(call) => call.map_or(Gate::Nothing, Gate::Unasked),
                    Err(answer) => {
                        out.answer = Some(answer);
                        return out;
                    }
                };
                self.held.push(HeldHook { request: request.to_owned(), event, worker, gate });
            }
            Mode::Stopped if begins && !by_us => {
                out.prompt_refused = out.prompt.is_some();
                out.answer = Some(stopping(&event));
            }
            _ => match self.proposed(&event, input, call) {
                Ok(Some(call)) => {
                    out.authorize = Some(call.clone());
                    let gate = Gate::Verdict(call);
                    self.held.push(HeldHook { request: request.to_owned(), event, worker, gate });
                }
                Ok(None) => {
                    if event == "PreToolUse" {
                        let tool = text(input, "tool_name").unwrap_or_default();
                        self.tool_begins(worker.clone(), call, tool);
                    }
                    out.answer = Some(self.proceed(&event, &worker));
                }
                Err(answer) => out.answer = Some(answer),
            },
        }
        out
    }

    /// The depth of the deepest worker that waits for a subagent.
    fn deepest_waiting(&self) -> u32 {
        let waits =
            |activity: &&Activity| activity.tools.values().any(|tool| *tool == OpenTool::WaitsForSubagent);
        let waiting = self.activity.values().filter(waits);
        waiting.map(|activity| activity.depth).max().unwrap_or(0)
    }

    /// Checks that a call does not start a forbidden subagent, and that its worker is not a forbidden subagent: a skill can start a
    /// subagent without a call.
    fn check_delegation(&self, input: &Value, worker: &Worker) -> Result<(), DelegationDenied> {
        let Some(policy) = &self.delegation else { return Ok(()) };
        let depth = match worker {
            None => 0,
            Some(_) => self.activity.get(worker).map_or(1, |activity| activity.depth.max(1)),
        };
        if depth > 0 {
            match text(input, "agent_type") {
                Some(kind) => policy.check_delegation(Delegation::Subagent { names: &[kind], depth })?,
                None => policy.check_depth(depth)?,
            }
        }
        let tool = text(input, "tool_name").unwrap_or_default();
        match called_subagent(tool, input.get("tool_input").unwrap_or(&Value::Null)) {
            Some(name) => policy.check_delegation(Delegation::Subagent { names: &[name], depth: depth + 1 }),
            None => Ok(()),
        }
    }

    /// The call that needs a verdict before its hook is answered. The error answers a call that cannot be named.
    fn proposed(&self, event: &str, input: &Value, call: &str) -> Result<Option<ProposedCall>, Value> {
        if !self.governed || event != "PreToolUse" {
            return Ok(None);
        }
        let tool = text(input, "tool_name").unwrap_or_default();
        if is_exempt(tool) {
            return Ok(None);
        }
        let arguments = input.get("tool_input").cloned().unwrap_or_default();
        let Ok(id) = ToolCallId::parse(call) else {
            return Err(permission("deny", Some("The call has no valid id.")));
        };
        Ok(Some(ProposedCall { id, tool: tool.to_owned(), kind: None, arguments }))
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
            let runs = activity.tools.iter().any(|(call, tool)| *tool == OpenTool::Runs && !waits(call));
            !activity.calls_model && !runs && (held || !activity.tools.is_empty())
        };
        (!turn || still(None)) && subagents.into_iter().all(|id| still(Some(id.to_owned())))
    }
}

/// The answer that prevents the next step.
fn stopping(event: &str) -> Value {
    const WHY: &str = "The owner of the session has interrupted it.";
    if event == "PreToolUse" {
        return permission("deny", Some(WHY));
    }
    json!({ "continue": false, "stopReason": WHY })
}

/// The answer to `PreToolUse`: `allow`, `ask` or `deny`.
fn permission(decision: &str, why: Option<&str>) -> Value {
    let mut output = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision });
    if let Some(why) = why {
        output["permissionDecisionReason"] = why.into();
    }
    json!({ "hookSpecificOutput": output })
}

#[cfg(test)]
mod tests;
