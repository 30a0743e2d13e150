//! Selection and timing of steps.

use pilothouse_model_server::{Outcome, Script, ScriptError, Step};
use serde_json::{Value, json};

use crate::support::{asked, messages, says, send, serve, soon, steps};

async fn said(server: &pilothouse_model_server::ModelServer, messages_: Value) -> Value {
    let (_, body) = send(messages(server, &asked(messages_))).await;
    body["content"][0]["text"].clone()
}

#[tokio::test]
async fn marker_selects_a_scenario_and_its_key_counts_separately() {
    let server = serve(json!({ "conversations": [
        { "name": "one", "steps": [{ "text": "1a" }, { "text": "1b" }] },
        { "name": "two", "steps": [{ "text": "2a" }] },
        { "steps": [{ "text": "else", "repeat": true }] },
    ] }))
    .await;
    assert_eq!(said(&server, says("go [[script:two]]")).await, "2a");
    assert_eq!(said(&server, says("[[script:one#x]] go")).await, "1a");
    assert_eq!(said(&server, says("[[script:one#y]] go")).await, "1a");
    assert_eq!(said(&server, says("[[script:one#x]] go")).await, "1b");
    let later = json!([
        { "role": "user", "content": "[[script:two]]" },
        { "role": "assistant", "content": "2a" },
        { "role": "user", "content": "[[script:one]] now this" },
    ]);
    assert_eq!(said(&server, later).await, "1a", "the last marker counts");
    // Without a marker, the first matching conversation is selected.
    assert_eq!(said(&server, says("go")).await, "1b");
    assert_eq!(server.prompts()[1].conversation.as_deref(), Some("one#x"));
}

#[tokio::test]
async fn words_tools_and_models_select_a_scenario() {
    let server = serve(json!({ "conversations": [
        { "name": "fix", "offers": "Read", "steps": [{ "text": "with Read", "repeat": true }] },
        { "name": "fix", "offers": "read", "steps": [{ "text": "with read", "repeat": true }] },
        { "name": "mine", "when": "pass", "model": "claude-sonnet-4-5", "steps": [
            { "text": "plain" }, { "when": "red", "text": "red!" }, { "text": "plain again" },
        ] },
    ] }))
    .await;
    let offering = |tool: &str| {
        let mut body = asked(says("[[script:fix]]"));
        body["tools"] = json!([{ "name": tool, "input_schema": { "type": "object" } }]);
        messages(&server, &body)
    };
    assert_eq!(send(offering("read")).await.1["content"][0]["text"], "with read");
    assert_eq!(send(offering("Read")).await.1["content"][0]["text"], "with Read");
    assert_eq!(said(&server, says("make it pass")).await, "plain");
    assert_eq!(said(&server, says("make the red pass")).await, "red!", "out of turn");
    assert_eq!(said(&server, says("make the red pass")).await, "plain again", "and once");
    let (status, body) = send(messages(&server, &asked(says("make it pass")))).await;
    assert_eq!(status, 400);
    assert!(body["error"]["message"].as_str().unwrap().contains("no step left"));
}

#[tokio::test]
async fn history_mode_derives_the_step_from_the_request() {
    let server = serve(json!({ "conversations": [
        { "name": "h", "progress": "history", "steps": [{ "text": "a" }, { "text": "b" }, { "text": "c", "repeat": true }] },
    ] }))
    .await;
    let after = |replies: usize| {
        let mut conversation = vec![json!({ "role": "user", "content": "[[script:h]]" })];
        for _ in 0..replies {
            conversation.push(json!({ "role": "assistant", "content": "x" }));
            conversation.push(json!({ "role": "user", "content": "y" }));
        }
        json!(conversation)
    };
    for (replies, expected) in [(0, "a"), (0, "a"), (1, "b"), (0, "a"), (2, "c"), (7, "c")] {
        assert_eq!(said(&server, after(replies)).await, expected, "after {replies} answers");
    }
}

#[tokio::test]
async fn a_reply_waits_for_its_gates() {
    let server =
        serve(steps(json!([{ "text": "one two", "chunk": 4, "wait": "begin", "waitInside": "go on" }])))
            .await;
    let mut body = asked(says("go"));
    body["stream"] = json!(true);
    let request = messages(&server, &body);
    let asking = tokio::spawn(async move { request.send().await.unwrap() });
    let waiting = soon(server.wait_for(1)).await;
    assert_eq!((waiting[0].status, waiting[0].outcome), (None, Outcome::Open));
    server.open("begin");
    let mut response = soon(asking).await.unwrap();
    let mut text = String::new();
    while !text.contains("one ") {
        text.push_str(std::str::from_utf8(&soon(response.chunk()).await.unwrap().unwrap()).unwrap());
    }
    assert!(!text.contains("\"two\""));
    server.open("go on");
    while let Some(bytes) = soon(response.chunk()).await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert!(text.contains("\"two\"") && text.contains("message_stop"));
}

#[tokio::test]
async fn disconnect_during_a_stream_is_noticed() {
    let server = serve(steps(json!([{ "text": "one two", "chunk": 4, "waitInside": "never" }]))).await;
    let mut body = asked(says("go"));
    body["stream"] = json!(true);
    let mut response = soon(messages(&server, &body).send()).await.unwrap();
    soon(response.chunk()).await.unwrap();
    drop(response);
    soon(server.wait_until(|all| all[0].outcome == Outcome::Gone)).await;
}

#[tokio::test]
async fn variables_and_scripts_can_be_changed_at_run_time() {
    let server = serve(json!({ "vars": { "where": "here" }, "conversations": [
        { "steps": [{ "text": "{{var:where}}", "repeat": true }] },
    ] }))
    .await;
    assert_eq!(said(&server, says("go")).await, "here");
    server.set("where", "there");
    assert_eq!(said(&server, says("go")).await, "there");
    server.play(Script::of([Step::text("new")]));
    assert_eq!(said(&server, says("go")).await, "new");
}

#[test]
fn invalid_script_is_reported() {
    assert!(matches!(Script::parse(r#"{ "conversation": [] }"#), Err(ScriptError::Format(_))));
    let twice = json!({ "conversations": [{ "name": "a" }, { "name": "a" }] });
    assert!(matches!(Script::from_value(twice), Err(ScriptError::Twice(name)) if name == "a"));
}
