//! A valid request for every HTTP function.

use pilothouse_app::function::HttpFunction;
use pilothouse_tests::{Api, Reply};
use serde_json::{Value, json};

const SOME_ID: &str = "01900000-0000-7000-8000-000000000001";

/// `None` if the function takes no body. Panics for an unknown function, so that a new function needs a line here and the tests cover the
/// whole catalog.
fn body(function: &HttpFunction) -> Option<Value> {
    Some(match function.name {
        "sessions-start" => json!({ "workingDirectory": "/tmp", "objective": "Look", "budgetCapUsd": "1" }),
        "sessions-interrupt" | "sessions-cancel" | "sessions-retry" | "brake-release" | "brakes-release"
        | "agents-kill" => {
            json!({})
        }
        "sessions-approve" | "sessions-reject" => json!({ "outputId": SOME_ID }),
        "sessions-budget" => json!({ "capUsd": "9" }),
        "messages-enqueue" => json!({ "content": "Hello", "priority": "Immediate", "messageId": SOME_ID }),
        "messages-edit" => json!({ "content": "Goodbye" }),
        "requests-answer" => {
            json!({ "requestId": "q1", "answers": [{ "question": "Which?", "answer": "Red" }] })
        }
        "sessions-adjust" => json!({ "modelId": "large" }),
        "sessions-compact" => json!({ "instructions": "Keep the decisions." }),
        "sessions-fork" => json!({ "beforeTurnId": "t1" }),
        "sessions-switch-conversation" => json!({ "conversationId": "c1" }),
        "sessions-label-turn" => json!({ "label": "A good start" }),
        "plan-approve" => json!({ "requestId": "p1" }),
        "plan-reject" => json!({ "requestId": "p1", "feedback": "No" }),
        "pool-configure" => json!({ "maxConcurrentSessions": 3 }),
        "agent-output" => {
            json!({ "outputLineCount": 1, "filesChanged": 1, "testsAdded": 0, "allTestsPassing": true })
        }
        "agent-handoff" => {
            json!({ "reason": "Lost the thread", "summary": "Half of it.", "remainingWork": "The rest." })
        }
        "agent-memory-pill" => json!({ "content": "Run the formatter first.", "category": "Tip" }),
        "agent-consolidation" => json!({ "pillIds": [SOME_ID], "updatedInstructions": "Run the formatter." }),
        "skills-create" => json!({ "name": "Formatting", "description": "How we format" }),
        "skills-update" => json!({ "description": "How we format everything" }),
        "skills-add-tool" | "templates-add-tool" => json!({
            "name": "lookup", "description": "Looks things up", "inputSchema": "{\"type\":\"object\"}",
            "serverUri": "https://tools.example/mcp",
        }),
        "skills-add-sub-agent" => {
            json!({ "name": "runner", "description": "Runs tests", "modelId": "small", "instructions": "Run." })
        }
        "skills-consolidate" => json!({ "workingDirectory": "/tmp", "budgetCapUsd": "1" }),
        "templates-create" => json!({
            "name": "Triage", "modelId": "small", "allowedTools": ["Read"], "defaultBudgetCapUsd": "1",
        }),
        "templates-update" => json!({ "description": "Sorts what comes in" }),
        "templates-add-rule" => {
            json!({ "matchField": "subject", "matchPattern": "*invoice*", "classifyAs": "invoice" })
        }
        "templates-set-schedule" => json!({
            "cronExpression": "0 2 * * *", "timeZone": "Europe/Berlin",
            "launch": { "workingDirectory": "/tmp", "objective": "Tidy up" },
        }),
        "templates-events" => json!({ "event": { "subject": "invoice 7" }, "workingDirectory": "/tmp" }),
        "webhooks-register" => json!({ "url": "https://example.com/hooks" }),
        "web-push-subscribe" => json!({
            "endpoint": "https://push.example/abc", "device": "Phone",
            "keys": {
                "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
                "auth": "BTBZMqHH6r4Tts7J_aSIgg",
            },
        }),
        "workers-heartbeat" => json!({ "capacity": 1 }),
        "workers-claim" => json!({ "runId": SOME_ID }),
        "workers-exit" => json!({ "sessionId": SOME_ID, "runId": SOME_ID, "exit": { "drained": true } }),
        "workers-orders" => json!({ "waitSeconds": 0.0 }),
        "agent-create-task" => json!({ "title": "Look again", "priority": "Normal" }),
        "agent-record-learning" => json!({ "kind": "Person", "content": "Ada reviews in the morning." }),
        "brake-pull" => json!({ "scope": { "type": "all" }, "reason": "It deletes the wrong files" }),
        "decisions-resolve" => json!({ "resolutionType": "approve" }),
        "projects-create" => json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "API" }] }),
        "projects-update" => json!({ "goals": ["Sell tea"] }),
        "agents-spawn" => json!({
            "brief": { "role": "Builder", "workstream": "api" }, "objective": "Build it", "workingDirectory": "/tmp",
            "budgetCapUsd": "1",
        }),
        "sidecar-authorize" => {
            json!({ "toolCallId": "t1", "tool": "Bash", "arguments": { "command": "ls" }, "home": "/root" })
        }
        "control-mode-set" => json!({ "mode": "orchestrator" }),
        "trust-simulate" => json!({ "name": "conservative" }),
        "tick-advance" => json!({ "ticks": 3 }),
        "agents-update-brief" => json!({ "role": "Builder", "workstream": "api" }),
        "agent-report-artifact" | "artifacts-upload" => {
            json!({ "path": "guide.md", "kind": "document", "text": "Tea" })
        }
        "agent-prepare-upload" | "artifacts-prepare-upload" => {
            json!({ "contentHash": "0".repeat(64), "sizeBytes": 1 })
        }
        "artifacts-approve" => json!({ "version": 1 }),
        "artifacts-reject" => json!({ "reason": "Tea, please" }),
        "agent-flag-coherence" | "coherence-report" => {
            json!({ "title": "Units differ", "description": "Cents here, dollars there.", "category": "contradiction" })
        }
        "coherence-audit" | "coherence-dismiss" => json!({}),
        "coherence-resolve" => json!({ "resolution": "Merged" }),
        "agent-log" => json!({ "content": "I take the left path." }),
        name => {
            assert!(function.input.is_none(), "`{name}` takes an input; give it one in these tests");
            return None;
        }
    })
}

fn path(function: &HttpFunction, session: &str, message: &str) -> String {
    let path = function.path.replace("{id}", session).replace("{messageId}", message);
    let path = path.replace("{sha256}", &"0".repeat(64)).replace("{queue}", "events");
    let path = ["{skillId}", "{pillId}", "{ruleId}", "{artifactId}", "{decisionId}"]
        .iter()
        .fold(path, |path, id| path.replace(id, SOME_ID));
    let path = path.replace("{name}", "none").replace("{toolName}", "none").replace("{version}", "1");
    assert!(!path.contains('{'), "`{}` has a parameter that these tests do not know", function.name);
    path
}

/// Sends a valid request to a function for one session.
pub(crate) async fn ask(api: &Api, function: &HttpFunction, session: &str, message: &str) -> Reply {
    const UPGRADE: &[(&str, &str)] = &[
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let headers = if function.path.starts_with("/ws/") { UPGRADE } else { &[] };
    let body = body(function).map(|body| body.to_string().into_bytes());
    api.send(function.verb.method(), &path(function, session, message), headers, body).await
}
