//! Tokens of a shim, which can repeat them anywhere.

use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Harness, approval, begin, completed};
use crate::gateway::Gateway;
use crate::sidecar::{Folders, message};

const BOTH: &str = "{requestToken} {backendToken}";

/// A session whose sidecar logs to a file.
pub(super) async fn logged(script: &Value) -> Harness {
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "shim");
    let sidecar = folders.start_logged(&folders.root().join("sidecar.log"));
    let harness = Harness { gateway, folders, sidecar };
    harness.begin(begin(script, Some("do it"), false));
    harness
}

/// Looks for the tokens that the shim had in everything that the sidecar published and logged.
fn no_token_is_visible(harness: &Harness, expected: usize) {
    let tokens = std::fs::read_to_string(harness.folders.work().join("tokens")).unwrap();
    let tokens: Vec<_> = tokens.lines().collect();
    assert_eq!(tokens.len(), expected, "{tokens:?}");
    let log = std::fs::read_to_string(harness.folders.root().join("sidecar.log")).unwrap();
    assert!(!log.is_empty());
    let published: Vec<_> = harness.gateway.delivered().iter().map(|event| event.body.to_string()).collect();
    assert!(published.iter().any(|event| event.contains("[secret]")), "{published:#?}");
    for token in tokens {
        assert!(!log.contains(token), "{log}");
        let shown = published.iter().find(|event| event.contains(token));
        assert_eq!(shown, None);
    }
}

#[tokio::test]
async fn no_token_of_a_shim_is_published_or_logged() {
    let event = |kind: &str, fields: Value| {
        let mut event = json!({ "type": kind });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "emit": event })
    };
    let failed = json!([{ "code": "provider_unavailable", "message": BOTH, "retryable": false }]);
    let script = json!({
        "plugin": { "supportsPause": true }, "pause": failed, "kill": failed, "inject-context": failed, "resolve": failed,
        "turn": [
            event("status", json!({ "message": BOTH })),
            event("error", json!({ "severity": "low", "message": BOTH, "recoverable": true, "category": "tool" })),
            event("tool_call", json!({ "toolCallId": "c0", "toolName": "shell", "phase": "completed",
                "input": { "command": BOTH }, "output": BOTH, "approved": true })),
            event("raw_provider", json!({ "providerName": "fake", "eventType": BOTH, "payload": { "a": BOTH } })),
            event("tool_call", json!({ "phase": BOTH })),
            { "raw": BOTH }, { "print": BOTH }, { "renew": true }, { "checkpoint": true },
            approval(), { "hear": true }, completed(),
        ],
    });
    let harness = logged(&script).await;
    let at = harness.gateway.sees("question_asked").await;
    let asked = harness.gateway.delivered().swap_remove(at);
    harness.gateway.send(message("look here", MessagePriority::Immediate));
    harness.gateway.sees("notice message_not_taken").await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.sees("notice decision_not_taken").await;
    let stop = harness.gateway.send(Command::Stop {});
    harness.gateway.acknowledged(stop, "done").await;
    no_token_is_visible(&harness, 3);
}

#[tokio::test]
async fn last_words_of_a_shim_show_no_token() {
    for script in [
        json!({ "words": BOTH, "start": "die" }),
        json!({ "words": BOTH, "turn": [{ "die": true }] }),
        json!({ "spawn": [{ "code": "capability_unsupported", "capability": BOTH }] }),
    ] {
        let harness = logged(&script).await;
        harness.gateway.sees("session_end").await;
        no_token_is_visible(&harness, 2);
    }
}
