//! Tool calls in a project: the control plane authorizes each of them.

use pilothouse_domain::value::MessagePriority;
use pilothouse_model_server::{Conversation, Script, Step};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Agent, bash};
use crate::sidecar::{delegating_to, message};
use crate::verdicts::Verdict;

/// With these options. `Bash` is in the list of allowed tools, which has no effect in a project.
async fn governed_with(
    verdicts: impl IntoIterator<Item = Verdict>,
    steps: impl IntoIterator<Item = Step>,
    options: Value,
) -> Option<Agent> {
    let agent = Agent::governed(Script::of(steps)).await?;
    agent.gateway.verdicts(verdicts);
    agent.begin(|begin| begin.config.adapter_options = options);
    Some(agent)
}

async fn governed(
    verdicts: impl IntoIterator<Item = Verdict>,
    steps: impl IntoIterator<Item = Step>,
) -> Option<Agent> {
    governed_with(verdicts, steps, json!({})).await
}

fn was_made(agent: &Agent, name: &str) -> bool {
    agent.work().join(name).exists()
}

fn tools(agent: &Agent) -> Vec<String> {
    let asked = agent.gateway.authorizations();
    asked.iter().map(|asked| asked["tool"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn allowed_call_runs_without_its_owner() {
    let agent = Agent::governed(Script::of([bash("touch first"), Step::text("the end")])).await;
    let Some(agent) = agent else { return };
    // Without a list, the binary asks before such a command.
    agent.begin(|begin| begin.config.allowed_tools.clear());
    agent.gateway.sees("turn_completed").await;
    assert!(was_made(&agent, "first"), "{:#?}", agent.story());
    assert_eq!(agent.events("question_asked"), Vec::<Value>::new());
    let asked = agent.gateway.authorizations().remove(0);
    assert_eq!((&asked["tool"], &asked["arguments"]["command"]), (&json!("Bash"), &json!("touch first")));
    let used = agent.events("assistant_message");
    let used = used.iter().find(|event| event["content"]["toolName"] == "Bash").unwrap();
    assert_eq!(asked["toolCallId"], used["content"]["toolCallId"]);
    let home = agent.folders.root().join("person");
    assert_eq!(asked["home"], json!(home.to_str().unwrap()));
}

#[tokio::test]
async fn denied_call_does_not_run_and_its_agent_reads_why() {
    let steps = [bash("touch first"), bash("touch second"), Step::text("the end")];
    let Some(agent) = governed([Verdict::Deny("Not on Fridays."), Verdict::Allow], steps).await else {
        return;
    };
    agent.gateway.sees("turn_completed").await;
    assert_eq!((was_made(&agent, "first"), was_made(&agent, "second")), (false, true));
    assert!(agent.prompts()[1].to_string().contains("Not on Fridays."));
}

#[tokio::test]
async fn owner_allows_denies_or_changes_a_call() {
    let steps = [bash("touch first"), bash("touch second"), bash("touch third"), Step::text("the end")];
    let Some(agent) = governed([Verdict::Ask], steps).await else { return };
    let asked = agent.gateway.asks_for_permission(1).await;
    let labels: Vec<_> =
        asked.body["questions"][0]["options"].as_array().unwrap().iter().map(|it| &it["label"]).collect();
    assert_eq!(labels, ["Allow", "Deny"]);
    assert!(!was_made(&agent, "first"));
    agent.gateway.decide(&asked, "Allow", None);
    let asked = agent.gateway.asks_for_permission(2).await;
    assert!(was_made(&agent, "first"));
    agent.gateway.decide(&asked, "no files today", None);
    let asked = agent.gateway.asks_for_permission(3).await;
    let changed = json!({ "command": "touch changed", "description": "Run a command" });
    let id = agent.gateway.decide(&asked, "Allow", Some(changed));
    agent.gateway.acknowledged(id, "done").await;
    agent.gateway.sees("turn_completed").await;
    let made = ["second", "third", "changed"].map(|name| was_made(&agent, name));
    assert_eq!(made, [false, false, true], "{:#?}", agent.story());
    assert!(agent.prompts()[2].to_string().contains("did not allow this: no files today"));
    assert_eq!(tools(&agent), ["Bash", "Bash", "Bash"], "each call is asked about once");
}

#[tokio::test]
async fn owner_decides_in_every_permission_mode() {
    for mode in ["acceptEdits", "dontAsk", "bypassPermissions"] {
        let steps = [bash("touch first"), Step::text("the end")];
        let options = json!({ "permissionMode": mode, "environment": { "IS_SANDBOX": "1" } });
        let Some(agent) = governed_with([Verdict::Ask], steps, options).await else { return };
        let asked = agent.gateway.asks_for_permission(1).await;
        assert!(!was_made(&agent, "first"), "{mode}");
        agent.gateway.decide(&asked, "Allow", None);
        agent.gateway.sees("turn_completed").await;
        assert!(was_made(&agent, "first"), "{mode}: {:#?}", agent.story());
    }
}

#[tokio::test]
async fn parallel_calls_are_authorized_one_by_one() {
    let calls =
        bash("touch first").and_tool("Bash", json!({ "command": "touch second", "description": "x" }));
    let verdicts = [Verdict::Deny("Only one."), Verdict::Allow];
    let Some(agent) = governed(verdicts, [calls, Step::text("the end")]).await else { return };
    agent.gateway.sees("turn_completed").await;
    let made = ["first", "second"].into_iter().filter(|name| was_made(&agent, name)).count();
    assert_eq!((made, tools(&agent).len()), (1, 2), "{:#?}", agent.story());
}

#[tokio::test]
async fn call_waits_while_the_control_plane_gives_no_verdict() {
    let steps = [bash("touch first"), Step::text("the end")];
    let Some(agent) = governed([Verdict::Fail(503)], steps).await else { return };
    agent.gateway.asked_for_verdicts(2).await;
    assert!(!was_made(&agent, "first"));
    agent.gateway.verdicts([Verdict::Brake, Verdict::Allow]);
    agent.gateway.sees("turn_completed").await;
    assert!(was_made(&agent, "first"));
}

#[tokio::test]
async fn interrupt_ends_the_wait_for_a_verdict_and_for_the_owner() {
    for verdict in [Verdict::Brake, Verdict::Ask] {
        let steps = [bash("touch first"), Step::text("the end")];
        let Some(agent) = governed([verdict], steps).await else { return };
        agent.gateway.asked_for_verdicts(1).await;
        let asked = match verdict {
            Verdict::Ask => Some(agent.gateway.asks_for_permission(1).await),
            _ => None,
        };
        let interrupt = agent.gateway.send(Command::Interrupt {});
        agent.gateway.acknowledged(interrupt, "done").await;
        agent.gateway.verdicts([Verdict::Allow]);
        let next = agent.gateway.send(message("go on", MessagePriority::Queued));
        agent.gateway.acknowledged(next, "injected").await;
        agent.gateway.sees("turn_completed").await;
        assert!(!was_made(&agent, "first"));
        if let Some(asked) = asked {
            let late = agent.gateway.decide(&asked, "Allow", None);
            agent.gateway.acknowledged(late, "invalid").await;
        }
    }
}

#[tokio::test]
async fn verdict_during_a_pause_takes_effect_after_it() {
    for verdict in [Verdict::Allow, Verdict::Ask] {
        let steps = [bash("touch first"), Step::text("the end")];
        let Some(agent) = governed([Verdict::Brake], steps).await else { return };
        let gateway = &agent.gateway;
        gateway.asked_for_verdicts(1).await;
        let pause = gateway.send(Command::Pause {});
        gateway.acknowledged(pause, "done").await;
        let before = gateway.authorizations().len();
        gateway.verdicts([verdict]);
        gateway.asked_for_verdicts(before + 1).await;
        let queued = gateway.send(message("later", MessagePriority::Queued));
        gateway.acknowledged(queued, "received").await;
        assert!(!was_made(&agent, "first"));
        assert_eq!(agent.events("question_asked"), Vec::<Value>::new());
        gateway.send(Command::Resume {});
        if matches!(verdict, Verdict::Ask) {
            let asked = gateway.asks_for_permission(1).await;
            gateway.decide(&asked, "Allow", None);
        }
        gateway.sees("tool_result").await;
        assert!(was_made(&agent, "first"));
        assert_eq!(gateway.authorizations().len(), before + 1, "it is asked about once");
    }
}

#[tokio::test]
async fn answer_during_a_pause_runs_the_call_after_it() {
    let steps = [bash("touch first"), Step::text("the end")];
    let Some(agent) = governed([Verdict::Ask], steps).await else { return };
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
async fn subagents_that_the_brief_does_not_allow_are_denied() {
    let task = json!({ "description": "Look", "prompt": "look around", "subagent_type": "general-purpose" });
    let steps = [Step::tool("Task", task), Step::text("then not")];
    let Some(agent) = Agent::governed(Script::of(steps)).await else { return };
    agent.begin(|begin| begin.config.policies = delegating_to("reviewer"));
    agent.gateway.sees("turn_completed").await;
    let (is_error, why) = agent.gateway.results().remove(0);
    assert!(is_error && why.to_string().contains("This agent may delegate only to: reviewer."), "{why}");
    assert_eq!(agent.events("subagent_started"), Vec::<Value>::new());
    assert_eq!(tools(&agent), [] as [&str; 0], "the control plane is not asked");
}

#[tokio::test]
async fn agent_without_subagents_has_no_tool_for_them() {
    let steps = [Step::text("done")];
    let Some(agent) = Agent::governed(Script::of(steps)).await else { return };
    agent.begin(|begin| {
        let policy = &mut begin.config.policies;
        *policy = delegating_to("reviewer");
        policy.delegation_policy.as_mut().unwrap().can_spawn_subagents = false;
    });
    agent.gateway.sees("turn_completed").await;
    let offered = agent.prompts().last().unwrap()["tools"].clone();
    let names: Vec<_> =
        offered.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"Bash") && !names.contains(&"Task") && !names.contains(&"Agent"), "{names:?}");
}

#[tokio::test]
async fn calls_of_subagents_are_authorized_too() {
    let conversation = |name: &str, when: &str, steps: Vec<Step>| Conversation {
        name: name.into(),
        when: Some(when.into()),
        steps,
        ..Conversation::default()
    };
    let task = json!({ "description": "Look", "prompt": "look around", "subagent_type": "general-purpose",
        "run_in_background": true });
    let main = vec![Step::tool("Task", task), Step::text("it looks"), Step::text("it has looked")];
    let sub = vec![bash("touch first"), Step::text("nothing here")];
    let conversations =
        vec![conversation("main", "do the work", main), conversation("sub", "look around", sub)];
    let Some(agent) = Agent::governed(Script { conversations, ..Script::default() }).await else { return };
    agent.gateway.verdicts([Verdict::Allow, Verdict::Ask]);
    agent.begin(|_| {});
    let asked = agent.gateway.asks_for_permission(1).await;
    assert!(!was_made(&agent, "first"));
    agent.gateway.decide(&asked, "Allow", None);
    agent.gateway.sees("subagent_ended").await;
    agent.gateway.sees("turn_completed").await;
    assert!(was_made(&agent, "first"));
    assert_eq!(tools(&agent).last().unwrap(), "Bash");
    assert_eq!(tools(&agent).len(), 2, "the subagent itself needs a verdict, too");
}
