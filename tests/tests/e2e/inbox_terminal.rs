//! `pilothouse inbox --interactive` on a pseudo terminal (decision 80).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use pilothouse_tests::{TerminalProcess, programs};
use serde_json::{Value, json};

use crate::authorization::{asked_about, bash};
use crate::inbox::permission;
use crate::projects::{project, spawned};
use crate::scripts::{say, script, turn};
use crate::server::{Server, started};

const DOWN: &str = "\x1b[B";

fn inbox(server: &Server, editor: Option<&Path>) -> Command {
    let mut command = Command::new(programs::pilothouse());
    command.args(["inbox", "--interactive", "--url", server.url(), "--data"]).arg(server.keys_folder());
    command.env_remove("VISUAL").env("EDITOR", editor.unwrap_or(Path::new("false")));
    command
}

fn options() -> Value {
    script(&[turn(&[
        json!({ "question": { "id": "o1", "questions": [
            { "question": "Which colour?", "options": [{ "label": "Red" }, { "label": "Blue" }] },
        ] } }),
        say("Thanks."),
    ])])
}

/// Keys decide what is on the screen, and nothing else: not what became more important, and not what another door decided.
#[tokio::test]
async fn keys_decide_only_what_is_shown() {
    let server = Server::start(1).await;
    let api = server.api();
    let colours = started(&server, &options()).await;
    colours.until_status("WaitingForInput").await;
    let mut terminal = TerminalProcess::start(inbox(&server, None));
    terminal.until_shown(&["Inbox: 1 of 1 pending", "Which colour?", "2. Blue"]).await;
    terminal.press("a");
    terminal.until_shown(&["does not take that answer", "Which colour?"]).await;

    let mut steps = permission().to_vec();
    steps.push(say("Done."));
    let acting = started(&server, &script(&[turn(&steps)])).await;
    acting.until_status("WaitingForInput").await;
    let removal = api.all(&format!("/api/decisions?session={}", acting.id)).await[0].clone();
    terminal.until_shown(&["new and more important", "Inbox: 2 of 2 pending", "Which colour?"]).await;
    terminal.press("2");
    terminal.until_shown(&["is over: option 2 chosen by"]).await;
    colours.until_said("Thanks.").await;
    assert!(colours.tool_calls().await[0]["result"]["content"].to_string().contains("Blue"));

    terminal.press("n");
    terminal.until_shown(&["tool approval, high severity, unknown reach", "\"command\": \"rm x\""]).await;
    terminal.press("s");
    terminal.until_shown(&["Any key goes back."]).await;
    terminal.press("x");
    terminal.until_shown(&["rm x"]).await;
    terminal.press(DOWN);
    let path = format!("/api/decisions/{}/resolve", removal["id"].as_str().unwrap());
    api.post(&path, json!({ "resolutionType": "reject", "rationale": "keep it" })).await.expect(202);
    terminal.until_shown(&["is over: rejected: keep it"]).await;
    terminal.press("a");
    terminal.until_shown(&["press n for the next one"]).await;
    terminal.press("n");
    terminal.until_shown(&["Nothing waits for you."]).await;
    terminal.press("q");
    assert!(terminal.ended().await.success());
    assert!(terminal.is_restored());
    assert!(terminal.written().contains("You decided 1 request."), "{}", terminal.written());
}

/// The editor changes the input of a call, and a line gives the reason of a rejection.
#[tokio::test]
async fn input_is_changed_in_the_editor_and_a_reason_is_typed() {
    let server = Server::start(1).await;
    let editor = server.work_folder().join("editor");
    fs::write(&editor, "#!/bin/sh\necho '{\"command\": \"npm ci\"}' > \"$1\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let shop = project(&server.api(), "Shop").await;
    let plays = script(&[turn(&[
        bash("install", "npm install", "installed"),
        bash("remove", "rm -rf build", "removed"),
        say("Done."),
    ])]);
    let (_, builder) = spawned(&server, &shop, "Builder", &plays).await;
    let mut terminal = TerminalProcess::start(inbox(&server, Some(&editor)));
    terminal.until_shown(&["npm install", "m change", "A always", "does: execute", "because: "]).await;
    terminal.press("m");
    terminal.until_shown(&["is over: approved with the input"]).await;
    asked_about(&builder, "remove").await;
    terminal.until_shown(&["Inbox: 1 pending"]).await;
    terminal.press("n");
    terminal.until_shown(&["rm -rf build"]).await;
    terminal.press("rnot thix\x7fs\r");
    terminal.until_shown(&["is over: rejected: not this"]).await;
    builder.until_said("Done.").await;
    let calls = builder.tool_calls().await;
    let result =
        |id: &str| calls.iter().find(|call| call["id"] == id).unwrap()["result"]["content"].to_string();
    assert!(result("install").contains("npm ci") && result("remove").contains("not this"), "{calls:#?}");
    terminal.terminate();
    assert!(terminal.ended().await.success());
    assert!(terminal.is_restored());
}

#[tokio::test]
async fn interactive_inbox_needs_a_terminal() {
    let server = Server::start(1).await;
    let refused = inbox(&server, None).stdin(Stdio::null()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("needs a terminal"), "{refused:?}");
}
