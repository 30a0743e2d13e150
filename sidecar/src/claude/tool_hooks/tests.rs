//! Holding hooks: pauses, interrupts and verdicts.

use super::*;

fn hook(event: &str, agent: Option<&str>, call: &str) -> Value {
    json!({ "subtype": "hook_callback", "callback_id": event, "tool_use_id": call,
        "input": { "hook_event_name": event, "agent_id": agent, "prompt": "hello",
            "tool_name": if call == "task" { "Task" } else { "Bash" }, "tool_input": { "command": "ls" } } })
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
    assert_eq!(tool_hooks.open().answers, [("2".to_owned(), json!({}))]);
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
    assert_eq!(tool_hooks.open().answers, []);
}

fn decision(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["permissionDecision"].as_str().unwrap()
}

fn allowed() -> Value {
    permission("allow", None)
}

#[test]
fn governed_call_is_answered_with_its_verdict() {
    let mut tool_hooks = ToolHooks::new(true);
    let asked = tool_hooks.ask("1", &hook("PreToolUse", None, "a"), |_| false);
    assert_eq!(asked.answer, None);
    let call = asked.authorize.unwrap();
    assert_eq!((call.id.as_str(), call.tool.as_str()), ("a", "Bash"));
    assert_eq!(call.arguments, json!({ "command": "ls" }));
    assert!(!tool_hooks.runs_tools(), "it waits");
    let denied = tool_hooks.decide("1", &Authorization::Deny("Not now.".into())).unwrap();
    assert_eq!(
        (decision(&denied), &denied["hookSpecificOutput"]["permissionDecisionReason"]),
        ("deny", &json!("Not now."))
    );
    assert!(!tool_hooks.runs_tools());
    assert_eq!(tool_hooks.decide("1", &Authorization::Allow), None, "it is answered once");
    tool_hooks.ask("2", &hook("PreToolUse", Some("s"), "b"), |_| false);
    assert_eq!(tool_hooks.decide("2", &Authorization::Allow), Some(allowed()));
    assert!(tool_hooks.runs_tools());
}

#[test]
fn own_tools_and_other_hooks_need_no_verdict() {
    let mut tool_hooks = ToolHooks::new(true);
    for tool in ["mcp__pilothouse__deliverable", ASK_USER_QUESTION, EXIT_PLAN_MODE] {
        let mut asked = hook("PreToolUse", None, "a");
        asked["input"]["tool_name"] = tool.into();
        assert_eq!(tool_hooks.ask("1", &asked, |_| false).answer, Some(json!({})), "{tool}");
    }
    assert_eq!(ask(&mut tool_hooks, "2", "PostToolBatch", None, ""), Some(json!({})));
    let nameless = ask(&mut tool_hooks, "3", "PreToolUse", None, "").unwrap();
    assert_eq!(decision(&nameless), "deny");
}

#[test]
fn verdict_during_a_pause_is_answered_after_it() {
    let mut tool_hooks = ToolHooks::new(true);
    assert_eq!(ask(&mut tool_hooks, "1", "PreToolUse", None, "a"), None);
    tool_hooks.pause();
    assert!(is_still(&tool_hooks, true, &NOBODY), "the call cannot begin");
    assert_eq!(tool_hooks.decide("1", &Authorization::Allow), None);
    assert!(is_still(&tool_hooks, true, &NOBODY));
    let late = tool_hooks.ask("2", &hook("PreToolUse", None, "b"), |_| false);
    assert!(late.answer.is_none() && late.authorize.is_none(), "nothing is asked during a pause");
    let released = tool_hooks.open();
    assert_eq!(released.answers, [("1".to_owned(), allowed())]);
    let calls: Vec<_> =
        released.authorize.iter().map(|(request, call)| (request.as_str(), call.id.as_str())).collect();
    assert_eq!(calls, [("2", "b")]);
    assert_eq!(tool_hooks.decide("2", &Authorization::Allow), Some(allowed()));
}

#[test]
fn verdict_that_arrives_after_the_pause_is_answered_at_once() {
    let mut tool_hooks = ToolHooks::new(true);
    ask(&mut tool_hooks, "1", "PreToolUse", None, "a");
    tool_hooks.pause();
    let released = tool_hooks.open();
    assert!(released.answers.is_empty() && released.authorize.is_empty(), "{released:?}");
    assert_eq!(tool_hooks.decide("1", &Authorization::Allow), Some(allowed()));
}

#[test]
fn interrupt_denies_calls_that_wait_for_a_verdict() {
    let mut tool_hooks = ToolHooks::new(true);
    ask(&mut tool_hooks, "1", "PreToolUse", None, "a");
    let stopped = tool_hooks.stop();
    assert_eq!((stopped.len(), decision(&stopped[0].1)), (1, "deny"));
    assert_eq!(tool_hooks.decide("1", &Authorization::Allow), None);
}

#[test]
fn subagent_that_waits_for_the_owner_adds_no_depth() {
    let mut tool_hooks = ToolHooks::default();
    ask(&mut tool_hooks, "1", "PreToolUse", None, "task");
    ask(&mut tool_hooks, "2", "SubagentStart", Some("s"), "");
    let mut decision = hook("PreToolUse", Some("s"), "d");
    decision["input"]["tool_name"] = "mcp__pilothouse__request_decision".into();
    tool_hooks.ask("3", &decision, |_| false);
    ask(&mut tool_hooks, "4", "SubagentStart", Some("sibling"), "");
    assert_eq!(tool_hooks.activity[&Some("sibling".to_owned())].depth, 1);
    ask(&mut tool_hooks, "5", "PreToolUse", Some("s"), "task");
    ask(&mut tool_hooks, "6", "SubagentStart", Some("nested"), "");
    assert_eq!(tool_hooks.activity[&Some("nested".to_owned())].depth, 2);
}
