//! Tool calls in a project: the control plane authorizes each of them.

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Script, Step};
use pilothouse_wire::Command;
use serde_json::json;

use super::{Agent, bash, begun, let_go, waiting};
use crate::sidecar::message;
use crate::verdicts::Verdict;

async fn governed(
    verdicts: impl IntoIterator<Item = Verdict>,
    steps: impl IntoIterator<Item = Step>,
) -> Agent {
    let agent = Agent::governed(Script::of(steps)).await;
    agent.gateway.verdicts(verdicts);
    agent.begin(|_| {});
    agent
}

fn was_made(agent: &Agent, name: &str) -> bool {
    agent.work().join(name).exists()
}

#[tokio::test]
async fn each_call_is_authorized_and_own_tools_are_not() {
    let todo = json!({ "todos": [{ "content": "Look", "status": "pending" }] });
    let calls = Step::tool("TodoWrite", todo).and_tool("bash", json!({ "command": "touch first" }));
    let calls = calls.and_tool("read", json!({ "path": "first" }));
    let agent = governed([Verdict::Allow], [calls, Step::text("Done.")]).await;
    agent.gateway.sees("turn_completed").await;
    assert!(was_made(&agent, "first"));
    let asked = agent.gateway.authorizations();
    let tools: Vec<_> = asked.iter().map(|asked| asked["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["bash", "read"]);
    assert_eq!(asked[0]["arguments"], json!({ "command": "touch first" }));
    let used = agent.gateway.delivered();
    let used = used.iter().find(|event| event.body["content"]["toolName"] == "bash").unwrap();
    assert_eq!(asked[0]["toolCallId"], used.body["content"]["toolCallId"]);
    assert_eq!(agent.gateway.delivered()[0].body["capabilities"]["approvals"], true);
}

#[tokio::test]
async fn denied_call_does_not_run_and_its_agent_reads_why() {
    let calls = bash("touch first").and_tool("bash", json!({ "command": "touch second" }));
    let verdicts = [Verdict::Deny("Not on Fridays."), Verdict::Allow];
    let agent = governed(verdicts, [calls, Step::text("Done.")]).await;
    agent.gateway.sees("turn_completed").await;
    assert_eq!((was_made(&agent, "first"), was_made(&agent, "second")), (false, true));
    assert_eq!(agent.gateway.results()[0], (true, json!("Not on Fridays.")));
    assert!(agent.last_request().to_string().contains("Not on Fridays."));
}

#[tokio::test]
async fn owner_allows_denies_or_changes_a_call() {
    let calls = bash("touch first").and_tool("bash", json!({ "command": "touch second" }));
    let calls = calls.and_tool("bash", json!({ "command": "touch third" }));
    let agent = governed([Verdict::Ask], [calls, Step::text("Done.")]).await;
    let asked = agent.gateway.asks_for_permission(1).await;
    assert_eq!(asked.body["approval"]["input"], json!({ "command": "touch first" }));
    assert_eq!(asked.body["approval"]["modifiable"], true);
    assert!(!was_made(&agent, "first"));
    agent.gateway.decide(&asked, "Allow", None);
    let asked = agent.gateway.asks_for_permission(2).await;
    assert!(was_made(&agent, "first"));
    agent.gateway.decide(&asked, "no files today", None);
    let asked = agent.gateway.asks_for_permission(3).await;
    let id = agent.gateway.decide(&asked, "Allow", Some(json!({ "command": "touch changed" })));
    agent.gateway.acknowledged(id, "done").await;
    agent.gateway.sees("turn_completed").await;
    let made = ["second", "third", "changed"].map(|name| was_made(&agent, name));
    assert_eq!(made, [false, false, true]);
    assert!(agent.last_request().to_string().contains("did not allow this: no files today"));
}

#[tokio::test]
async fn invalid_input_of_the_owner_runs_nothing() {
    let agent = governed([Verdict::Ask], [bash("touch first"), Step::text("Done.")]).await;
    let asked = agent.gateway.asks_for_permission(1).await;
    agent.gateway.decide(&asked, "Allow", Some(json!({ "command": 5 })));
    agent.gateway.sees("turn_completed").await;
    let (is_error, content) = agent.gateway.results().remove(0);
    assert!(is_error && content.as_str().unwrap().contains("not valid"), "{content}");
}

#[tokio::test]
async fn call_waits_while_the_control_plane_gives_no_verdict() {
    let agent = governed([Verdict::Fail(503)], [bash("touch first"), Step::text("Done.")]).await;
    agent.gateway.asked_for_verdicts(2).await;
    assert!(!was_made(&agent, "first"));
    agent.gateway.verdicts([Verdict::Brake, Verdict::Allow]);
    agent.gateway.sees("turn_completed").await;
    assert!(was_made(&agent, "first"));
}

#[tokio::test]
async fn interrupt_ends_the_wait_for_a_verdict_and_for_the_owner() {
    for verdict in [Verdict::Brake, Verdict::Ask] {
        let agent = governed([verdict], [bash("touch first"), Step::text("Next.")]).await;
        agent.gateway.asked_for_verdicts(1).await;
        let asked = match verdict {
            Verdict::Ask => Some(agent.gateway.asks_for_permission(1).await),
            _ => None,
        };
        let interrupt = agent.gateway.send(Command::Interrupt {});
        agent.gateway.acknowledged(interrupt, "done").await;
        agent.gateway.verdicts([Verdict::Allow]);
        agent.gateway.send(message("go on", MessagePriority::Queued));
        agent.gateway.sees("turn_completed").await;
        assert!(!was_made(&agent, "first"));
        assert!(agent.gateway.results()[0].0, "the call has an error as its result");
        if let Some(asked) = asked {
            let late = agent.gateway.decide(&asked, "Allow", None);
            agent.gateway.acknowledged(late, "invalid").await;
        }
    }
}

#[tokio::test]
async fn verdict_during_a_pause_takes_effect_after_it() {
    for verdict in [Verdict::Allow, Verdict::Ask] {
        let agent = governed([Verdict::Brake], [bash("touch first"), Step::text("Done.")]).await;
        let gateway = &agent.gateway;
        gateway.asked_for_verdicts(1).await;
        let pause = gateway.send(Command::Pause {});
        gateway.acknowledged(pause, "done").await;
        let before = gateway.authorizations().len();
        gateway.verdicts([verdict]);
        gateway.asked_for_verdicts(before + 1).await;
        let queued = gateway.send(message("later", MessagePriority::Queued));
        gateway.acknowledged(queued, "received").await;
        let story = gateway.story();
        let at = story.iter().position(|line| line == "pause_ack done").unwrap();
        assert_eq!(story[at + 1..], ["message_ack received"], "nothing happens during the pause");
        assert!(!was_made(&agent, "first"));
        gateway.send(Command::Resume {});
        if matches!(verdict, Verdict::Ask) {
            let asked = gateway.asks_for_permission(1).await;
            gateway.decide(&asked, "Allow", None);
        }
        gateway.sees("tool_result").await;
        assert!(was_made(&agent, "first"));
    }
}

#[tokio::test]
async fn answer_during_a_pause_runs_the_call_after_it() {
    let agent = governed([Verdict::Ask], [bash("touch first"), Step::text("Done.")]).await;
    let asked = agent.gateway.asks_for_permission(1).await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    let answer = agent.gateway.decide(&asked, "Allow", None);
    agent.gateway.acknowledged(answer, "done").await;
    let again = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(again, "done").await;
    assert!(!was_made(&agent, "first"));
    agent.gateway.send(Command::Resume {});
    agent.gateway.sees("turn_completed").await;
    assert!(was_made(&agent, "first"));
}

#[tokio::test]
async fn pause_during_a_tool_holds_the_next_verdict() {
    let agent = Agent::governed(Script::default()).await;
    let first = waiting(&agent.work(), "first");
    let calls = bash(&first).and_tool("bash", json!({ "command": "touch second" }));
    agent.model.play(Script::of([calls, Step::text("Done.")]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "received").await;
    let_go(&agent, "first");
    agent.gateway.acknowledged(pause, "done").await;
    assert_eq!(agent.gateway.authorizations().len(), 1);
    agent.gateway.send(Command::Resume {});
    agent.gateway.sees("turn_completed").await;
    assert!(was_made(&agent, "second"));
}
