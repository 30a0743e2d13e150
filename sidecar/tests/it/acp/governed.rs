//! Tool calls in a project: the control plane authorizes those that the agent asks about.

use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use serde_json::{Value, json};

use super::agent::MUCH;
use super::{Harness, workspace};
use crate::sidecar::{delegating_to, message};
use crate::verdicts::Verdict;

async fn asking(verdicts: impl IntoIterator<Item = Verdict>) -> Harness {
    // The list of allowed tools has no effect in a project.
    Harness::governed(verdicts, "ask", |begin| begin.config.allowed_tools = vec!["Bash".into()]).await
}

fn tools(harness: &Harness) -> Vec<String> {
    let asked = harness.gateway.authorizations();
    asked.iter().map(|asked| asked["tool"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn verdict_selects_the_option_that_allows_or_rejects_once() {
    for (verdict, option) in [(Verdict::Allow, "yes"), (Verdict::Deny("Not on Fridays."), "no")] {
        let harness = asking([verdict]).await;
        let result = harness.event("tool_result").await;
        assert_eq!(result["content"], option);
        let asked = harness.gateway.authorizations().remove(0);
        let call = [&asked["toolCallId"], &asked["tool"], &asked["kind"]];
        assert_eq!(call, [&json!("c1"), &json!("Bash"), &json!("execute")]);
        assert_eq!(asked["arguments"], json!({ "command": "touch x" }));
        assert!(!harness.reported_lines().contains(&"question_asked".to_owned()));
    }
}

#[tokio::test]
async fn agent_with_a_forbidden_subagent_is_ended() {
    let to_reviewer = |begin: &mut Begin| begin.config.policies = delegating_to("reviewer");
    let harness = Harness::governed([Verdict::Allow], "delegate painter", to_reviewer).await;
    let end = harness.event("session_end").await;
    assert_eq!(end["isError"], true);
    let why = end["message"].as_str().unwrap();
    assert!(why.contains("This agent may delegate only to: reviewer."), "{why}");
}

#[tokio::test]
async fn request_for_a_forbidden_subagent_is_refused() {
    for (kind, option) in [("painter", "no"), ("reviewer", "yes")] {
        let to_reviewer = |begin: &mut Begin| begin.config.policies = delegating_to("reviewer");
        let harness =
            Harness::governed([Verdict::Allow], &format!("ask-to-delegate {kind}"), to_reviewer).await;
        assert_eq!(harness.event("tool_result").await["content"], option, "{kind}");
        let denied =
            harness.reported_lines().iter().any(|event| event.starts_with("notice delegation_denied"));
        assert_eq!((denied, tools(&harness).is_empty()), (option == "no", option == "no"));
    }
}

#[tokio::test]
async fn owner_allows_or_denies_but_cannot_change_a_call() {
    for (answer, option) in [("Allow", "yes"), ("not today", "no")] {
        let harness = asking([Verdict::Ask]).await;
        let asked = harness.gateway.asks_for_permission(1).await;
        let labels = &asked.body["questions"][0]["options"];
        assert_eq!([&labels[0]["label"], &labels[1]["label"]], ["Allow", "Deny"]);
        assert!(asked.body["approval"]["modifiable"].is_null());
        let changed = harness.gateway.decide(&asked, "Allow", Some(json!({ "command": "ls" })));
        harness.gateway.acknowledged(changed, "invalid").await;
        let id = harness.gateway.decide(&asked, answer, None);
        harness.gateway.acknowledged(id, "done").await;
        assert_eq!(harness.event("tool_result").await["content"], option, "{answer}");
        harness.gateway.sees("turn_completed").await;
    }
}

#[tokio::test]
async fn call_waits_while_the_control_plane_gives_no_verdict() {
    let harness = asking([Verdict::Brake, Verdict::Fail(503)]).await;
    harness.gateway.asked_for_verdicts(3).await;
    assert_eq!(harness.gateway.results(), []);
    harness.gateway.verdicts([Verdict::Allow]);
    assert_eq!(harness.event("tool_result").await["content"], "yes");
}

#[tokio::test]
async fn interrupt_ends_the_wait_for_a_verdict_and_for_the_owner() {
    for verdict in [Verdict::Brake, Verdict::Ask] {
        let harness = asking([verdict]).await;
        harness.gateway.asked_for_verdicts(1).await;
        let asked = match verdict {
            Verdict::Ask => Some(harness.gateway.asks_for_permission(1).await),
            _ => None,
        };
        let interrupt = harness.gateway.send(Command::Interrupt {});
        harness.gateway.acknowledged(interrupt, "done").await;
        harness.gateway.verdicts([Verdict::Allow]);
        harness.gateway.send(message("say next", MessagePriority::Queued));
        harness.gateway.sees("assistant_message text next").await;
        assert!(
            harness.gateway.results().iter().all(|(is_error, _)| *is_error),
            "{:?}",
            harness.gateway.results()
        );
        if let Some(asked) = asked {
            let late = harness.gateway.decide(&asked, "Allow", None);
            harness.gateway.acknowledged(late, "invalid").await;
        }
    }
}

#[tokio::test]
async fn verdict_during_a_pause_takes_effect_after_it() {
    for verdict in [Verdict::Allow, Verdict::Ask] {
        let harness = asking([Verdict::Brake]).await;
        let gateway = &harness.gateway;
        gateway.asked_for_verdicts(1).await;
        let pause = gateway.send(Command::Pause {});
        gateway.acknowledged(pause, "done").await;
        let before = gateway.authorizations().len();
        gateway.verdicts([verdict]);
        gateway.asked_for_verdicts(before + 1).await;
        let queued = gateway.send(message("say later", MessagePriority::Queued));
        gateway.acknowledged(queued, "received").await;
        let story = gateway.story();
        let at = story.iter().position(|line| line == "pause_ack done").unwrap();
        assert_eq!(story[at + 1..], ["message_ack received"], "nothing happens during the pause");
        gateway.send(Command::Resume {});
        if matches!(verdict, Verdict::Ask) {
            let asked = gateway.asks_for_permission(1).await;
            gateway.decide(&asked, "Allow", None);
        }
        assert_eq!(harness.event("tool_result").await["content"], "yes");
    }
}

#[tokio::test]
async fn unpermitted_file_and_command_need_a_verdict() {
    let harness = Harness::governed([Verdict::Deny("Not this.")], "run touch made", |_| {}).await;
    harness.gateway.sees("assistant_message text ran: Not this.").await;
    let file = workspace(&harness.folders).join("file");
    harness.gateway.send(message(&format!("write {}", file.display()), MessagePriority::Queued));
    harness.gateway.sees("assistant_message text written: Not this.").await;
    assert!(!workspace(&harness.folders).join("made").exists() && !file.exists());
    assert_eq!(tools(&harness), ["terminal/create", "fs/write_text_file"]);
    let asked = harness.gateway.authorizations();
    assert_eq!(
        (&asked[0]["kind"], &asked[0]["arguments"]),
        (&json!("execute"), &json!({ "command": "touch made" }))
    );
    assert_eq!((&asked[1]["kind"], &asked[1]["arguments"]["path"]), (&json!("edit"), &json!(file)));

    harness.gateway.verdicts([Verdict::Ask]);
    harness.gateway.send(message(&format!("write {}", file.display()), MessagePriority::Queued));
    let asked = harness.gateway.asks_for_permission(1).await;
    assert!(!file.exists());
    harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.sees("assistant_message text written: none").await;
    assert_eq!(std::fs::read_to_string(file).unwrap(), "one");
}

#[tokio::test]
async fn owner_is_asked_about_a_file_too_large_for_an_envelope() {
    let harness = Harness::governed([Verdict::Ask], "say ready", |_| {}).await;
    harness.gateway.sees("turn_completed").await;
    let file = workspace(&harness.folders).join("file");
    harness.gateway.send(message(&format!("write-much {}", file.display()), MessagePriority::Queued));
    let asked = harness.gateway.asks_for_permission(1).await;
    let input = &asked.body["approval"]["input"];
    assert_eq!(input["path"], json!(file));
    assert!(input["content"].as_str().unwrap().starts_with("xxx"));
    let whole = harness.gateway.blobs().remove(input["blob"]["blob"].as_str().unwrap()).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(whole["content"].as_str().unwrap().len(), MUCH);
    harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.sees("assistant_message text written: none").await;
    assert_eq!(std::fs::read_to_string(file).unwrap().len(), MUCH);
}

#[tokio::test]
async fn answer_during_a_pause_runs_the_command_after_it() {
    let harness = Harness::governed([Verdict::Ask], "run touch made", |_| {}).await;
    let asked = harness.gateway.asks_for_permission(1).await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let answer = harness.gateway.decide(&asked, "Allow", None);
    harness.gateway.acknowledged(answer, "done").await;
    let made = workspace(&harness.folders).join("made");
    let again = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(again, "done").await;
    assert!(!made.exists());
    harness.gateway.send(Command::Resume {});
    harness.gateway.sees("assistant_message text ran: none").await;
    harness.gateway.until("the file", |_| made.exists().then_some(())).await;
}

#[tokio::test]
async fn permission_covers_its_own_command_once() {
    let harness = Harness::governed([Verdict::Allow], "ask-and-run touch x", |_| {}).await;
    assert_eq!(harness.event("tool_result").await["content"], "yes none");
    assert_eq!(tools(&harness), ["Bash"]);
    harness.gateway.verdicts([Verdict::Allow, Verdict::Deny("Not that.")]);
    harness.gateway.sees("turn_completed").await;
    harness.gateway.send(message("run touch x", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text ran: none").await;
    assert_eq!(tools(&harness), ["Bash", "terminal/create"], "the permission was for one command");
    harness.gateway.verdicts([Verdict::Deny("Not that.")]);
    harness.gateway.send(message("run touch y", MessagePriority::Queued));
    harness.gateway.sees("assistant_message text ran: Not that.").await;
}
