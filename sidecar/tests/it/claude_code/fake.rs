//! A fake binary for behaviour that the real one does not show on request: a failing start, an exceeded quota,
//! confirmations of a newer version, and text outside the protocol. It answers control requests like the recordings,
//! and plays lines that follow the binary's published types.

use std::os::unix::fs::PermissionsExt as _;

use pilothouse_domain::Timestamp;
use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::{Gateway, PNG, base64};
use crate::sidecar::{Folders, Sidecar, begin, message, message_with};

/// Answers control requests, and writes `steps[n]` on the nth user line. `{uuid}` is that line's id, and `{content}` its texts and images.
pub(super) const PROGRAM: &str = r#"#!/usr/bin/env python3
import json, sys
steps = json.loads(STEPS)
def say(line):
    print(line if isinstance(line, str) else json.dumps(line), flush=True)
def content(blocks):
    if isinstance(blocks, str): return blocks
    source = lambda block: block["source"]["media_type"] + " " + block["source"]["data"]
    return " ".join(block["text"] if block["type"] == "text" else source(block) for block in blocks)
for line in sys.stdin:
    line = json.loads(line)
    if line["type"] == "control_request":
        session = {"session": {"total_cost_usd": 0, "model_usage": {}}}
        say({"type": "control_response", "response": {"subtype": "success", "request_id": line["request_id"], "response": session}})
    if line["type"] == "user" and steps:
        for said in steps.pop(0):
            said = json.dumps(said).replace("{uuid}", line["uuid"])
            text = json.dumps(content(line["message"]["content"]))[1:-1]
            say(json.loads(said.replace("{content}", text)))
"#;

pub(super) struct Fake {
    pub(super) gateway: Gateway,
    pub(super) folders: Folders,
    _sidecar: Sidecar,
}

pub(super) async fn of_program(program: &str) -> Fake {
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "claude");
    let path = folders.root().join("claude");
    std::fs::write(&path, program).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sidecar = folders.start_with(&[("PILOTHOUSE_CLAUDE", path.to_str().unwrap().to_owned())]);
    Fake { gateway, folders, _sidecar: sidecar }
}

async fn playing(steps: Value) -> Fake {
    let steps = serde_json::to_string(&steps.to_string()).unwrap();
    let fake = of_program(&PROGRAM.replace("STEPS", &steps)).await;
    fake.gateway.send(begin(json!({})));
    fake
}

pub(super) fn init() -> Value {
    init_of("2.9.9")
}

fn init_of(version: &str) -> Value {
    json!({ "type": "system", "subtype": "init", "session_id": "s", "model": "m", "claude_code_version": version })
}

/// The confirmation that the model has the message (`--replay-user-messages`).
pub(super) fn replay() -> Value {
    json!({ "type": "user", "isReplay": true, "uuid": "{uuid}", "session_id": "s", "parent_tool_use_id": null,
        "message": { "role": "user", "content": "" } })
}

pub(super) fn says(text: &str) -> Value {
    json!({ "type": "assistant", "session_id": "s", "parent_tool_use_id": null, "message": { "id": text, "model": "m",
        "content": [{ "type": "text", "text": text }], "usage": { "input_tokens": 10, "output_tokens": 1 } } })
}

pub(super) fn success() -> Value {
    json!({ "type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed", "session_id": "s",
        "modelUsage": {}, "total_cost_usd": 0 })
}

#[tokio::test]
async fn missing_binary_refuses_begin_in_one_sentence() {
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "claude");
    let _sidecar = folders.start_with(&[("PILOTHOUSE_CLAUDE", "/nowhere/claude".to_owned())]);
    let id = gateway.send(begin(json!({})));
    let refused = gateway.acknowledged(id, "invalid").await;
    let said = refused.body["message"].as_str().unwrap();
    assert!(said.contains("`PILOTHOUSE_CLAUDE` names /nowhere/claude"), "{said}");
    gateway.sees("session_end adapter_error").await;
}

#[tokio::test]
async fn failed_start_is_reported_with_the_last_output() {
    let fake = of_program("#!/bin/sh\necho 'no usable licence' >&2\nexit 3\n").await;
    let id = fake.gateway.send(begin(json!({})));
    let refused = fake.gateway.acknowledged(id, "invalid").await;
    assert!(refused.body["message"].as_str().unwrap().contains("no usable licence"), "{}", refused.body);
}

/// Like the real binary, reports that its conversation is lost. Ends after each turn. Each start adds its command line
/// to the file `started`.
const FORGETFUL: &str = r#"
open("started", "a").write(json.dumps(sys.argv) + "\n")
if "--resume" in sys.argv:
    id = sys.argv[sys.argv.index("--resume") + 1]
    say({"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0, "session_id": id,
         "modelUsage": {}, "total_cost_usd": 0, "errors": ["No conversation found with session ID: " + id]})
    sys.exit(1)
"#;

#[tokio::test]
async fn lost_conversation_restarts_and_the_queued_message_arrives() {
    let steps = json!([[init(), replay(), says("I did a."), success()]]);
    let steps = serde_json::to_string(&steps.to_string()).unwrap();
    let program = PROGRAM
        .replace("STEPS", &steps)
        .replace("for line in sys.stdin:", &format!("{FORGETFUL}for line in sys.stdin:"));
    let fake = of_program(&format!("{program}        sys.exit(0)\n")).await;
    let mut begin = begin(json!({}));
    let Command::Begin(given) = &mut begin else { panic!() };
    given.config.working_directory = fake.folders.work().to_str().unwrap().into();
    fake.gateway.send(begin);
    fake.gateway.sees("turn_completed").await;
    let id = fake.gateway.send(message("then b", MessagePriority::Queued));
    fake.gateway.acknowledged(id, "injected").await;
    fake.gateway.sees_nth("turn_completed", 2).await;
    let story = fake.gateway.story();
    assert!(story.contains(&"notice conversation_lost".to_owned()), "{story:#?}");
    assert!(!story.iter().any(|line| line.starts_with("session_end")), "{story:#?}");
    let started = std::fs::read_to_string(fake.folders.work().join("started")).unwrap();
    let anew: Vec<String> = serde_json::from_str(started.lines().last().unwrap()).unwrap();
    assert!(anew.contains(&"--session-id".to_owned()), "{anew:?}");
    assert!(anew.iter().any(|word| word.contains("write a poem") && word.contains("I did a.")), "{anew:?}");
}

#[tokio::test]
async fn process_exit_during_compaction_ends_no_turn() {
    let steps = json!([[init(), replay(), says("one"), success()]]);
    let steps = serde_json::to_string(&steps.to_string()).unwrap();
    let program = PROGRAM.replace("STEPS", &steps);
    let falls_over = "        if line[\"message\"][\"content\"] == \"/compact\": sys.exit(1)\n";
    let program = program.replace(
        "    if line[\"type\"] == \"user\" and steps:\n",
        &format!(
            "    if line[\"type\"] == \"user\":\n{falls_over}    if line[\"type\"] == \"user\" and steps:\n"
        ),
    );
    let fake = of_program(&program).await;
    fake.gateway.send(begin(json!({})));
    fake.gateway.sees("turn_completed").await;
    let adjustment = pilothouse_domain::value::Adjustment::Compact { instructions: None };
    let compact = fake.gateway.send(Command::Adjust { adjustment });
    fake.gateway.acknowledged(compact, "invalid").await;
    fake.gateway.send(message("go on", MessagePriority::Queued));
    fake.gateway.sees_nth("turn_completed", 2).await;
}

#[tokio::test]
async fn exhausted_plan_holds_the_turn_until_resumed() {
    let rejected = json!({ "type": "rate_limit_event", "session_id": "s",
        "rate_limit_info": { "status": "rejected", "resetsAt": 1_795_360_000, "rateLimitType": "five_hour" } });
    let failed = json!({ "type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
        "terminal_reason": "api_error", "result": "You have reached your limit", "session_id": "s" });
    let steps =
        json!([[init(), replay(), says("one"), rejected, failed], [replay(), says("two"), success()]]);
    let fake = playing(steps).await;
    fake.gateway.sees("quota_exceeded").await;
    let pause = fake.gateway.send(Command::Pause {});
    fake.gateway.acknowledged(pause, "done").await;
    assert!(!fake.gateway.story().iter().any(|line| line.starts_with("turn_completed")));
    let resume = fake.gateway.send(Command::Resume {});
    fake.gateway.acknowledged(resume, "done").await;
    fake.gateway.sees("assistant_message text two").await;
    fake.gateway.sees("turn_completed").await;
    let quota = fake.gateway.delivered().into_iter().find(|event| event.kind() == "quota_exceeded").unwrap();
    assert_eq!(quota.body["resetAt"], "2026-11-22T15:06:40.000Z");
    assert_eq!(fake.gateway.story().iter().filter(|line| line.starts_with("turn_started")).count(), 1);
}

#[tokio::test]
async fn exhausted_plan_can_be_interrupted() {
    let rejected = json!({ "type": "rate_limit_event", "session_id": "s", "rate_limit_info": { "status": "rejected", "rateLimitType": "five_hour" } });
    let failed = json!({ "type": "result", "subtype": "success", "is_error": true, "api_error_status": 429,
        "terminal_reason": "api_error", "result": "You have reached your limit", "session_id": "s" });
    let fake = playing(json!([
        [init(), replay(), says("one"), rejected, failed],
        [init(), replay(), says("two"), success()]
    ]))
    .await;
    fake.gateway.sees("quota_exceeded").await;
    let interrupt = fake.gateway.send(Command::Interrupt {});
    fake.gateway.acknowledged(interrupt, "done").await;
    fake.gateway.send(message("again", MessagePriority::Queued));
    fake.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn receipts_of_newer_versions_confirm_delivery() {
    let lifecycle =
        |state: &str| json!({ "type": "command_lifecycle", "command_uuid": "{uuid}", "state": state });
    let steps = json!([
        [init(), replay(), says("one"), success()],
        [lifecycle("queued"), init(), lifecycle("started"), says("two"), success(), lifecycle("completed")],
    ]);
    let fake = playing(steps).await;
    fake.gateway.sees("turn_completed").await;
    let command = message("hello", MessagePriority::Immediate);
    let Command::SteeringMessage { message_id, .. } = &command else { panic!() };
    let message_id = message_id.to_string();
    let id = fake.gateway.send(command);
    fake.gateway.acknowledged(id, "injected").await;
    fake.gateway.sees_nth("turn_completed", 2).await;
    let started: Vec<_> =
        fake.gateway.delivered().into_iter().filter(|e| e.kind() == "turn_started").collect();
    assert_eq!(started[1].body["messageId"], message_id.as_str());
}

#[tokio::test]
async fn images_precede_the_text_of_their_message() {
    let turn = || json!([init(), replay(), says("{content}"), success()]);
    let steps = serde_json::to_string(&json!([turn(), turn()]).to_string()).unwrap();
    let fake = of_program(&PROGRAM.replace("STEPS", &steps)).await;
    let shown = fake.gateway.image(PNG);
    let mut begin = begin(json!({}));
    let Command::Begin(given) = &mut begin else { panic!() };
    given.images = vec![shown.clone()];
    fake.gateway.send(begin);
    let seen = format!("assistant_message text image/png {}", base64(PNG));
    fake.gateway.sees(&format!("{seen} write a poem")).await;
    fake.gateway.sees("turn_completed").await;
    let id = fake.gateway.send(message_with("look", vec![shown], MessagePriority::Queued));
    fake.gateway.acknowledged(id, "injected").await;
    fake.gateway.sees(&format!("{seen} look")).await;
}

#[tokio::test]
async fn non_protocol_output_is_logged_and_unknown_lines_are_noted() {
    let steps =
        json!([["Warning: something", { "type": "surprise" }, init(), replay(), says("one"), success()]]);
    let fake = playing(steps).await;
    fake.gateway.sees("turn_completed").await;
    let story = fake.gateway.story();
    assert!(story.iter().any(|line| line.starts_with("log_chunk")), "{story:#?}");
    assert!(story.contains(&"notice unknown_surprise".to_owned()), "{story:#?}");
}

/// The result of the last attempt names no delay.
#[tokio::test]
async fn attempt_after_an_outage_waits_as_long_as_the_last_retry() {
    let retry = json!({ "type": "system", "subtype": "api_retry", "session_id": "s", "attempt": 10, "max_retries": 10,
        "retry_delay_ms": 3_600_000, "error_status": 529, "error": "overloaded" });
    let lost = json!({ "type": "result", "subtype": "success", "is_error": true, "api_error_status": 529,
        "session_id": "s", "result": "Overloaded", "modelUsage": {}, "total_cost_usd": 0 });
    let begun = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let fake = playing(json!([[init(), replay(), retry, lost]])).await;
    let at = fake.gateway.sees("model_unavailable").await;
    let retry_at = fake.gateway.delivered()[at].body["retryAt"].clone();
    let retry_at: Timestamp = serde_json::from_value(retry_at).unwrap();
    assert!((begun + 3600..begun + 4100).contains(&retry_at.as_secs()), "{retry_at:?}");
}

/// Plays `steps`, and adds the type of each control request to the file `asked`.
async fn noting_requests(steps: Value) -> Fake {
    let steps = serde_json::to_string(&steps.to_string()).unwrap();
    let program = PROGRAM.replace("STEPS", &steps).replace(
        "        session = {",
        "        open(\"asked\", \"a\").write(line[\"request\"][\"subtype\"] + \"\\n\")\n        session = {",
    );
    let fake = of_program(&program).await;
    let mut begin = begin(json!({}));
    let Command::Begin(given) = &mut begin else { panic!() };
    given.config.working_directory = fake.folders.work().to_str().unwrap().into();
    fake.gateway.send(begin);
    fake
}

/// How often the fake was asked this.
fn asked(fake: &Fake, subtype: &str) -> usize {
    let asked = std::fs::read_to_string(fake.folders.work().join("asked")).unwrap();
    asked.lines().filter(|line| *line == subtype).count()
}

#[tokio::test]
async fn untested_version_gets_no_undocumented_request() {
    for (version, untested) in [("2.9.9", false), ("3.0.0", true)] {
        let call_ends = json!({ "type": "stream_event", "session_id": "s", "parent_tool_use_id": null,
            "event": { "type": "message_stop" } });
        let turn = || json!([init_of(version), replay(), says("one"), call_ends, success()]);
        let fake = noting_requests(json!([turn(), turn()])).await;
        fake.gateway.sees("turn_completed").await;
        // The fake reads the message after the requests of the first turn.
        fake.gateway.send(message("go on", MessagePriority::Queued));
        fake.gateway.sees_nth("turn_completed", 2).await;
        let usage = asked(&fake, "get_usage");
        assert_eq!(
            usage == 1,
            untested,
            "{version} was asked {usage} times, at first without a known version"
        );
        let delivered = fake.gateway.delivered();
        let notices = delivered.iter().filter(|event| event.short() == "notice untested_version").count();
        assert_eq!(notices, usize::from(untested), "{version}");
        let ready = delivered.iter().rfind(|event| event.kind() == "sidecar_ready").unwrap();
        let capabilities = &ready.body["capabilities"];
        assert_eq!((&capabilities["allowance"], &capabilities["cost"]), (&json!(!untested), &json!(true)));
    }
}

#[tokio::test]
async fn interrupt_of_an_untested_version_ends_its_process() {
    let first = json!([init_of("3.0.0"), replay(), says("one")]);
    let fake = noting_requests(json!([first, []])).await;
    fake.gateway.sees("assistant_message text one").await;
    let id = fake.gateway.send(message("faster", MessagePriority::Immediate));
    fake.gateway.acknowledged(id, "injecting").await;
    let interrupt = fake.gateway.send(Command::Interrupt {});
    fake.gateway.acknowledged(id, "interrupted").await;
    fake.gateway.acknowledged(interrupt, "done").await;
    assert_eq!((asked(&fake, "cancel_async_message"), asked(&fake, "interrupt")), (0, 0));
}
