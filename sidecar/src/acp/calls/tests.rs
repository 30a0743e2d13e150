//! Calls with streamed input, their names and results.

use super::*;

fn nothing(_: &str) -> Option<String> {
    None
}

fn published(events: &[RawEvent]) -> Vec<String> {
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
fn streamed_call_is_reported_once_with_its_whole_input() {
    let mut calls = Calls::default();
    let mut take = |update: Value| published(&calls.update(&update, None, &nothing));
    assert!(take(json!({"toolCallId": "c", "name": "Edit", "rawInput": {}, "status": "pending"})).is_empty());
    assert!(take(json!({"toolCallId": "c", "rawInput": {"path": "a"}})).is_empty());
    assert!(take(json!({"toolCallId": "c", "rawInput": {"path": "a", "new": "b"}})).is_empty());
    assert_eq!(
        take(json!({"toolCallId": "c", "status": "in_progress"})),
        [format!("Edit {}", json!({"path": "a", "new": "b"}))]
    );
    assert_eq!(take(json!({"toolCallId": "c", "status": "completed", "rawOutput": "done"})), ["done false"]);
    assert!(take(json!({"toolCallId": "c", "status": "failed"})).is_empty(), "a second result");
}

#[test]
fn unannounced_result_is_preceded_by_its_call() {
    let mut calls = Calls::default();
    let update = json!({"toolCallId": "c", "title": "ls", "kind": "execute", "status": "failed",
        "content": [{"type": "content", "content": {"type": "text", "text": "no"}}]});
    assert_eq!(published(&calls.update(&update, None, &nothing)), [r#"execute {"title":"ls"}"#, "no true"]);
}

#[test]
fn tool_name_is_found_in_every_supported_place() {
    let mut calls = Calls::default();
    let update = json!({"toolCallId": "c", "kind": "other", "title": "shell · ls", "rawInput": {"command": "ls"},
        "status": "in_progress", "_meta": {"goose": {"toolCall": {"toolName": "shell"}}}});
    assert_eq!(published(&calls.update(&update, None, &nothing)), [r#"shell {"command":"ls"}"#]);
    let update = json!({"toolCallId": "q", "kind": "think", "title": "Plan:", "rawInput": {"plan": "1. Fix"},
        "status": "in_progress", "_meta": {"toolName": "exit_plan_mode"}});
    assert_eq!(published(&calls.update(&update, None, &nothing)), [r#"ExitPlanMode {"plan":"1. Fix"}"#]);
    let update = json!({"toolCallId": "d", "kind": "other", "title": "Look around", "status": "in_progress"});
    assert_eq!(published(&calls.update(&update, None, &nothing)), [r#"Look around {"title":"Look around"}"#]);
}

fn result_of(updates: &[Value]) -> String {
    let mut calls = Calls::default();
    let mut published = Vec::new();
    for update in updates {
        published = if update.get("asks").is_some() {
            calls.publish_for_request(update)
        } else {
            calls.update(update, None, &nothing)
        };
    }
    match published.last() {
        Some(RawEvent::ToolResult { content, .. }) => content.text().into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn codex_output_precedes_the_text_of_its_permission() {
    let asked = json!({"asks": true, "toolCallId": "c", "content": [
        {"type": "content", "content": {"type": "text", "text": "May codex run ls?"}}]});
    let ends = |output: &str, code: i64| {
        json!({"toolCallId": "c", "status": "completed", "rawOutput": {
        "call_id": "c", "stdout": "", "stderr": "", "aggregated_output": output, "exit_code": code}})
    };
    assert_eq!(result_of(&[asked.clone(), ends("a.txt\n", 0)]), "a.txt\n");
    assert_eq!(result_of(&[asked.clone(), ends("", 0)]), "");
    assert_eq!(result_of(&[asked.clone(), ends("", 3)]), "exit code 3");
    let done = json!({"toolCallId": "c", "status": "completed"});
    assert_eq!(result_of(&[asked, done]), "", "the question is not a result");
    // Version 2.6 prints in pieces to a terminal that it does not create.
    let piece = |data: &str| json!({"toolCallId": "c", "_meta": {"terminal_output_delta": {"data": data}}});
    let begins = json!({"toolCallId": "c", "content": [{"type": "terminal", "terminalId": "c"}]});
    let exits = |code: i64| json!({"toolCallId": "c", "status": "failed", "_meta": {"terminal_exit": {"exit_code": code}}});
    assert_eq!(result_of(&[begins.clone(), piece("one\n"), piece("two\n"), exits(2)]), "one\ntwo\n");
    assert_eq!(result_of(&[begins, exits(2)]), "exit code 2");
    let mcp = json!({"toolCallId": "c", "status": "completed", "rawOutput": {"result": {"Ok": {
        "content": [{"type": "text", "text": "found"}]}}}});
    assert_eq!(result_of(&[mcp]), "found");
}

#[test]
fn empty_content_update_removes_nothing() {
    let shows = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    for empty in [json!([]), shows("")] {
        let updates = [
            json!({"toolCallId": "c", "status": "in_progress", "content": shows("the output")}),
            json!({"toolCallId": "c", "status": "completed", "content": empty}),
        ];
        assert_eq!(result_of(&updates), "the output");
    }
}

#[test]
fn open_calls_end_in_an_error() {
    let mut calls = Calls::default();
    calls.update(&json!({"toolCallId": "c", "name": "Bash", "rawInput": {"command": "x"}}), None, &nothing);
    assert_eq!(published(&calls.close_all("stopped")), [r#"Bash {"command":"x"}"#, "stopped true"]);
    assert!(calls.close_all("stopped").is_empty());
}

#[test]
fn terminal_output_is_shown_and_differences_stay_unchanged() {
    let printed = |id: &str| (id == "t").then(|| "out".to_owned());
    let mut calls = Calls::default();
    let update = json!({"toolCallId": "c", "status": "completed", "content": [{"type": "terminal", "terminalId": "t"}]});
    assert_eq!(published(&calls.update(&update, None, &printed))[1], "out false");
    let update =
        json!({"toolCallId": "d", "status": "completed", "content": [{"type": "diff", "path": "a"}]});
    assert!(published(&calls.update(&update, None, &printed))[1].contains("diff"));
}

#[test]
fn proposed_call_has_locations_and_no_name_from_its_title() {
    let mut calls = Calls::default();
    let id = ToolCallId::parse("c").unwrap();
    let update = json!({"toolCallId": "c", "title": "TaskList", "kind": "edit", "status": "pending",
        "locations": [{"path": "/w/a", "line": 3}], "content": [{"type": "diff", "path": "/w/b", "newText": ""}]});
    calls.update(&update, None, &nothing);
    let call = calls.proposed(&id, &json!({}));
    assert_eq!((call.tool.as_str(), call.kind.as_deref()), ("edit", Some("edit")));
    assert_eq!(
        call.arguments,
        json!({"title": "TaskList", "locations": [{"path": "/w/a"}, {"path": "/w/b"}]})
    );
    calls.update(
        &json!({"toolCallId": "c", "name": "Edit", "rawInput": {"file_path": "/w/a"}}),
        None,
        &nothing,
    );
    let call = calls.proposed(&id, &json!({}));
    assert_eq!((call.tool.as_str(), &call.arguments["file_path"]), ("Edit", &json!("/w/a")));
    let unknown = calls.proposed(&ToolCallId::parse("d").unwrap(), &json!({"title": "Read"}));
    assert_eq!((unknown.tool.as_str(), unknown.kind), ("tool", None));
}

#[test]
fn completed_call_names_the_files_that_it_has_written() {
    let mut calls = Calls::default();
    let mut written = |update: Value| {
        calls.update(&update, None, &nothing);
        let written = calls.take_written();
        written.into_iter().map(|(call, paths)| format!("{call} {}", paths.join(" "))).collect::<Vec<_>>()
    };
    let diff = json!([{"type": "diff", "path": "/w/b", "newText": ""}]);
    let begun = json!({"toolCallId": "c", "title": "Write b", "kind": "edit", "status": "in_progress",
        "rawInput": {"changes": {}}, "locations": [{"path": "/w/a"}]});
    assert_eq!(written(begun), [""; 0], "it is not completed");
    let completed = json!({"toolCallId": "c", "status": "completed", "content": diff});
    assert_eq!(written(completed.clone()), ["c /w/a /w/b"]);
    assert_eq!(written(completed), [""; 0], "it has one result");
    let named = json!({"toolCallId": "d", "name": "write_file", "kind": "edit", "status": "completed",
        "content": diff});
    assert_eq!(written(named), ["d /w/b"]);
    for (kind, status) in [("edit", "failed"), ("read", "completed")] {
        let call =
            json!({"toolCallId": kind, "kind": kind, "status": status, "locations": [{"path": "/w/a"}]});
        assert_eq!(written(call), [""; 0], "{kind} {status}");
    }
}
