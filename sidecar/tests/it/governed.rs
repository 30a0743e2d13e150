//! Tool calls of a scripted agent in a project: the control plane authorizes each of them.

use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{Folders, Sidecar, begin, delegating_to, message, playing, turn};
use crate::verdicts::Verdict;

async fn governed(steps: Value) -> (Gateway, Folders, Sidecar) {
    governed_by([Verdict::Allow], steps).await
}

async fn governed_by(
    verdicts: impl IntoIterator<Item = Verdict>,
    steps: Value,
) -> (Gateway, Folders, Sidecar) {
    let gateway = Gateway::start().await;
    gateway.verdicts(verdicts);
    let folders = Folders::governed(&gateway, "script");
    let sidecar = folders.start();
    gateway.send(begin(json!({ "script": { "steps": [turn(steps)] } })));
    (gateway, folders, sidecar)
}

fn bash() -> Value {
    json!({ "tool": { "id": "c1", "name": "Bash", "input": { "command": "make" }, "result": "built" } })
}

#[tokio::test]
async fn allowed_call_runs_without_its_owner() {
    let question = json!({ "question": { "questions": [{ "question": "Which?" }], "wait": false } });
    let own = json!({ "tool": { "name": "mcp__pilothouse__deliverable", "result": "noted" } });
    let (gateway, _folders, _sidecar) = governed(json!([question, own, bash()])).await;
    gateway.sees("turn_completed").await;
    assert_eq!(gateway.results(), [(false, json!("noted")), (false, json!("built"))]);
    let asked = gateway.authorizations();
    assert_eq!(asked.len(), 1, "own tools and questions need no verdict: {asked:#?}");
    assert_eq!((&asked[0]["toolCallId"], &asked[0]["tool"]), (&json!("c1"), &json!("Bash")));
    assert_eq!(asked[0]["arguments"], json!({ "command": "make" }));
    assert_eq!(asked[0]["home"], json!(std::env::var("HOME").unwrap()));
    assert!(!gateway.story().contains(&"question_asked".to_owned()));
    let ready = &gateway.delivered()[0].body;
    assert_eq!(ready["capabilities"]["approvals"], true);
}

#[tokio::test]
async fn script_starts_only_subagents_that_its_brief_allows() {
    let gateway = Gateway::start().await;
    let folders = Folders::governed(&gateway, "script");
    let _sidecar = folders.start();
    let child = |id: &str| json!({ "subagent": { "id": id, "objective": "look", "steps": [{ "say": id }] } });
    let steps = turn(json!([child("painter"), child("reviewer"), { "say": "both asked" }]));
    let Command::Begin(mut begin) = begin(json!({ "script": { "steps": [steps] } })) else { panic!() };
    begin.config.policies = delegating_to("reviewer");
    gateway.send(Command::Begin(begin));
    gateway.sees("turn_completed").await;
    let denied = json!("This agent may delegate only to: reviewer.");
    assert_eq!(gateway.results(), [(true, denied), (false, json!("done"))]);
    let delivered = gateway.delivered();
    let started = delivered.iter().filter(|event| event.kind() == "subagent_started");
    let started: Vec<_> = started.map(|event| event.body["subagentId"].clone()).collect();
    assert_eq!(started, [json!("reviewer")]);
    let said = delivered.iter().filter(|event| event.kind() == "subagent_message").count();
    assert_eq!(said, 1, "the forbidden subagent said nothing: {:#?}", gateway.story());
}

#[tokio::test]
async fn session_outside_of_projects_asks_for_no_verdict() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([bash()]))])).await;
    gateway.sees("turn_completed").await;
    assert_eq!(gateway.results(), [(false, json!("built"))]);
    assert_eq!(gateway.authorizations(), Vec::<Value>::new());
    assert_eq!(gateway.delivered()[0].body["capabilities"]["approvals"], false);
}

#[tokio::test]
async fn denied_call_does_not_run_and_its_agent_continues() {
    let (gateway, _folders, _sidecar) = governed_by(
        [Verdict::Deny("Not on Fridays."), Verdict::Allow],
        json!([bash(), { "say": "Then not." }]),
    )
    .await;
    gateway.sees("assistant_message text Then not.").await;
    assert_eq!(gateway.results(), [(true, json!("Not on Fridays."))]);
}

#[tokio::test]
async fn owner_allows_denies_or_changes_a_call() {
    let call = |id: &str| json!({ "tool": { "id": id, "name": "Bash", "input": { "command": "make" }, "result": "built" } });
    let (gateway, _folders, _sidecar) =
        governed_by([Verdict::Ask], json!([call("a"), call("b"), call("c")])).await;
    let asked = gateway.asks_for_permission(1).await;
    assert_eq!(asked.body["approval"]["modifiable"], true);
    assert_eq!(gateway.results(), []);
    gateway.decide(&asked, "Allow", None);
    let asked = gateway.asks_for_permission(2).await;
    gateway.decide(&asked, "use ninja", None);
    let asked = gateway.asks_for_permission(3).await;
    let id = gateway.decide(&asked, "Allow", Some(json!({ "command": "make check" })));
    gateway.acknowledged(id, "done").await;
    gateway.sees("turn_completed").await;
    let reason = "The owner of the session did not allow this: use ninja";
    let changed = json!({ "modifiedInput": { "command": "make check" }, "result": "built" });
    assert_eq!(gateway.results(), [(false, json!("built")), (true, json!(reason)), (false, changed)]);
}

#[tokio::test]
async fn call_waits_while_the_control_plane_gives_no_verdict() {
    let (gateway, _folders, _sidecar) =
        governed_by([Verdict::Brake, Verdict::Fail(429)], json!([bash()])).await;
    gateway.asked_for_verdicts(3).await;
    assert_eq!(gateway.results(), []);
    gateway.verdicts([Verdict::Allow]);
    gateway.sees("turn_completed").await;
    assert_eq!(gateway.results(), [(false, json!("built"))]);
    assert!(gateway.authorizations().iter().all(|asked| asked["toolCallId"] == "c1"));
}

#[tokio::test]
async fn interrupt_ends_the_wait_for_a_verdict_and_for_the_owner() {
    for verdict in [Verdict::Brake, Verdict::Ask] {
        let (gateway, _folders, _sidecar) = governed_by([verdict], json!([bash()])).await;
        gateway.asked_for_verdicts(1).await;
        if matches!(verdict, Verdict::Ask) {
            gateway.asks_for_permission(1).await;
        }
        let interrupt = gateway.send(Command::Interrupt {});
        gateway.acknowledged(interrupt, "done").await;
        gateway.verdicts([Verdict::Allow]);
        gateway.send(message("and now?", MessagePriority::Queued));
        gateway.sees("assistant_message text You said: and now?").await;
        assert_eq!(gateway.results(), [], "the call did not run");
    }
}

#[tokio::test]
async fn verdict_during_a_pause_takes_effect_after_it() {
    for verdict in [Verdict::Allow, Verdict::Ask] {
        let (gateway, _folders, _sidecar) = governed_by([Verdict::Brake], json!([bash()])).await;
        gateway.asked_for_verdicts(1).await;
        let pause = gateway.send(Command::Pause {});
        gateway.acknowledged(pause, "done").await;
        let before = gateway.authorizations().len();
        gateway.verdicts([verdict]);
        gateway.asked_for_verdicts(before + 1).await;
        let reload = gateway.send(message("later", MessagePriority::Queued));
        gateway.acknowledged(reload, "received").await;
        let story = gateway.story();
        let at = story.iter().position(|line| line == "pause_ack done").unwrap();
        assert_eq!(story[at + 1..], ["message_ack received"], "nothing happens during the pause");
        gateway.send(Command::Resume {});
        if matches!(verdict, Verdict::Ask) {
            let asked = gateway.asks_for_permission(1).await;
            gateway.decide(&asked, "allow", None);
        }
        gateway.sees("tool_result").await;
        assert_eq!(gateway.results(), [(false, json!("built"))]);
    }
}

#[tokio::test]
async fn answer_to_a_question_cannot_change_an_input() {
    let question = json!({ "question": { "id": "q", "questions": [{ "question": "Which?" }] } });
    let (gateway, _folders, _sidecar) = governed(json!([question])).await;
    gateway.sees("assistant_message tool AskUserQuestion").await;
    let request_id = "q".parse().unwrap();
    let modified_input = Some(Box::new(json!({})));
    let id = gateway.send(Command::Answer { request_id, answers: vec![], modified_input });
    gateway.acknowledged(id, "invalid").await;
}
