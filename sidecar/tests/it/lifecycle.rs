//! Commands: acknowledged in two steps; a repetition gets the same answer.

use pilothouse_domain::project_agent::{ResourceLimits, WorkspaceRequirements};
use pilothouse_domain::value::{Answer, MessagePriority};
use pilothouse_wire::Command;
use serde_json::json;

use crate::gateway::Gateway;
use crate::sidecar::{Folders, begin, begin_with, config, message, much, playing, playing_options, turn};

#[tokio::test]
async fn demo_plays_a_whole_story_without_a_script() {
    let (gateway, _folders, _sidecar) = playing_options(json!({ "speed": 0 })).await;
    gateway.sees("turn_completed").await;
    let story = gateway.story();
    assert_eq!(
        story[..4],
        ["sidecar_ready", "begin_ack received", "begin_ack done", "turn_started turn-1-1"]
    );
    assert_eq!(story[4], "assistant_message text I was asked to do this: write a poem");
    assert!(story.iter().any(|s| s == "usage_update") && story.iter().any(|s| s == "task_list"));
    let id = gateway.send(message("make it rhyme", MessagePriority::Queued));
    gateway.acknowledged(id, "injected").await;
    gateway.sees_nth("turn_completed", 2).await;
    let story = gateway.story();
    let from = story.iter().position(|s| s == "message_ack received").unwrap();
    assert_eq!(
        story[from..from + 5],
        [
            "message_ack received",
            "message_ack injecting",
            "turn_started turn-1-2",
            "message_ack injected",
            "assistant_message text You said: make it rhyme"
        ]
    );
    let usage: Vec<_> = gateway.delivered().into_iter().filter(|e| e.kind() == "usage_update").collect();
    let costs: Vec<_> = usage.iter().map(|e| e.body["costUsd"].as_str().unwrap()).collect();
    assert_eq!(costs, ["0.0125", "0.025", "0.0375"], "running totals, exact");
}

#[tokio::test]
async fn nothing_starts_before_begin_and_begin_starts_once() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let _sidecar = folders.start();
    let early = gateway.send(Command::Interrupt {});
    gateway.acknowledged(early, "no-agent").await;
    let first = gateway.send(begin(json!({ "speed": 0 })));
    gateway.acknowledged(first, "done").await;
    let second = gateway.send(begin(json!({ "speed": 0 })));
    gateway.acknowledged(second, "invalid").await;
    gateway.sees("turn_completed").await;
    assert_eq!(gateway.story().iter().filter(|s| s.starts_with("turn_started")).count(), 1);
}

#[tokio::test]
async fn repeated_command_is_acknowledged_but_not_executed_again() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([{ "waitForMessage": {} }]))])).await;
    gateway.sees("turn_started").await;
    let id = Gateway::command_id();
    let reload = || Command::ReloadConfig { config: Box::new(config(json!({}))) };
    gateway.send_as(id, 1, reload());
    gateway.sees("notice config_reloaded").await;
    gateway.send_as(id, 2, reload());
    gateway.sees_nth("reload_config_ack done", 2).await;
    let acks: Vec<_> =
        gateway.delivered().into_iter().filter(|e| e.short() == "reload_config_ack done").collect();
    assert_ne!(acks[0].message_id, acks[1].message_id, "a new envelope");
    assert_eq!(acks[0].body, acks[1].body);
    // The queue may deliver the same attempt twice. It needs no answer.
    gateway.send_as(id, 2, reload());
    let last = gateway.send(Command::Pause {});
    gateway.acknowledged(last, "done").await;
    let story = gateway.story();
    assert_eq!(story.iter().filter(|s| *s == "reload_config_ack done").count(), 2);
    assert_eq!(story.iter().filter(|s| *s == "notice config_reloaded").count(), 1);
}

/// An agent uses its new configuration from the reload on (S0 8.2 `reload_config`).
#[tokio::test]
async fn reloaded_agent_uses_the_new_configuration() {
    let tells = || turn(json!([{ "say": "{{configuration}}" }]));
    let (gateway, _folders, _sidecar) = playing(json!([tells(), { "waitForMessage": {} }, tells()])).await;
    gateway.sees("turn_completed").await;
    let mut new = config(json!({}));
    new.composed_system_prompt = "Be brief.".into();
    new.custom_tools = serde_json::from_value(json!([{
        "name": "lint", "description": "Lints", "inputSchema": "{}", "serverUri": "stdio:///usr/bin/lint",
    }]))
    .unwrap();
    new.sub_agents = serde_json::from_value(json!([{
        "name": "tester", "description": "Tests", "modelId": "small", "instructions": "Test.",
    }]))
    .unwrap();
    let id = gateway.send(Command::ReloadConfig { config: Box::new(new) });
    gateway.acknowledged(id, "done").await;
    let id = gateway.send(message("and now?", MessagePriority::Queued));
    gateway.acknowledged(id, "injected").await;
    gateway.sees_nth("turn_completed", 2).await;
    let said: Vec<_> = gateway.story().into_iter().filter(|s| s.contains("custom tools:")).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(!said[0].contains("Be brief.") && said[1].contains("Be brief."), "{said:?}");
    assert!(said[1].contains("custom tools: lint") && said[1].contains("subagents: tester"), "{said:?}");
}

#[tokio::test]
async fn limits_that_an_adapter_cannot_apply_are_named() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let _sidecar = folders.start();
    let Command::Begin(mut first) = begin(json!({ "speed": 0 })) else { panic!("another command") };
    let policy = json!({ "historyPolicy": "recent_n", "historyN": 3, "maxTurns": 7 });
    first.config.policies.session_policy = Some(serde_json::from_value(policy).unwrap());
    gateway.send(Command::Begin(first));
    let at = gateway.sees("notice session_policy_left_out").await;
    let delivered = gateway.delivered();
    assert_eq!(
        delivered[at].body["summary"],
        "a script has no conversation to limit; skipped: maxTurns, historyN"
    );
}

#[tokio::test]
async fn command_that_stays_in_the_queue_runs_once() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([{ "waitForMessage": {} }]))])).await;
    gateway.sees("turn_started").await;
    gateway.until("an empty queue", |g| (g.undeleted() == 0).then_some(())).await;
    gateway.lose_deletes(true);
    let id = gateway.send(Command::ReloadConfig { config: Box::new(config(json!({}))) });
    gateway.acknowledged(id, "done").await;
    let later = gateway.send(Command::Pause {});
    gateway.acknowledged(later, "done").await;
    gateway.lose_deletes(false);
    gateway.until("an empty queue", |g| (g.undeleted() == 0).then_some(())).await;
    let story = gateway.story();
    assert_eq!(story.iter().filter(|s| s.starts_with("reload_config_ack")).count(), 2, "{story:?}");
}

#[tokio::test]
async fn pause_suspends_and_resume_continues() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([much(300), { "say": "end" }]))])).await;
    gateway.sees_nth("assistant_message", 10).await;
    let pause = gateway.send(Command::Pause {});
    let done = gateway.acknowledged(pause, "done").await;
    // Only heartbeats continue.
    let beats = gateway.heartbeats();
    gateway.until("more heartbeats", |g| (g.heartbeats() > beats + 2).then_some(())).await;
    assert_eq!(gateway.delivered().last().unwrap().sequence, done.sequence, "silence after `done`");
    let resume = gateway.send(Command::Resume {});
    gateway.acknowledged(resume, "done").await;
    gateway.sees("turn_completed").await;
    let story = gateway.story();
    assert_eq!(story.iter().filter(|s| *s == "assistant_message text line").count(), 300);
    assert_eq!(story.iter().filter(|s| s.starts_with("turn_started")).count(), 1);
}

#[tokio::test]
async fn interrupt_ends_the_turn_and_the_next_message_starts_another() {
    let steps = json!([turn(json!([much(10_000)])), turn(json!([{ "say": "second: {{message}}" }]))]);
    let (gateway, _folders, _sidecar) = playing(steps).await;
    gateway.sees_nth("assistant_message", 10).await;
    let interrupt = gateway.send(Command::Interrupt {});
    let done = gateway.acknowledged(interrupt, "done").await;
    let beats = gateway.heartbeats();
    gateway.until("more heartbeats", |g| (g.heartbeats() > beats + 2).then_some(())).await;
    assert_eq!(gateway.delivered().last().unwrap().sequence, done.sequence, "silence after `done`");
    gateway.send(message("go on", MessagePriority::Immediate));
    gateway.sees("assistant_message text second: go on").await;
    gateway.sees("turn_completed turn-1-2").await;
    assert!(!gateway.story().contains(&"turn_completed turn-1-1".to_owned()));
}

#[tokio::test]
async fn stop_ends_agent_and_sidecar_after_all_events_are_sent() {
    let (gateway, folders, sidecar) = playing(json!([turn(json!([much(10_000)]))])).await;
    gateway.sees_nth("assistant_message", 10).await;
    gateway.send(Command::Stop {});
    assert_eq!(sidecar.ended().await.code(), Some(0));
    assert_eq!(gateway.story().last().unwrap(), "stop_ack done");
    assert_eq!(folders.drain().await.code(), Some(0));
}

#[tokio::test]
async fn sidecar_outlives_its_agent() {
    let steps = json!([turn(json!([{ "say": "hi" }])), { "end": { "error": true, "reason": "broken" } }]);
    let (gateway, _folders, sidecar) = playing(steps).await;
    gateway.sees("session_end broken").await;
    // The agent may be about to end when the first command reaches it. It is refused either way.
    let id = gateway.send(message("hello?", MessagePriority::Immediate));
    gateway.acknowledged(id, "no-agent").await;
    gateway.send(Command::Stop {});
    assert_eq!(sidecar.ended().await.code(), Some(0));
}

#[tokio::test]
async fn questions_and_plans_wait_for_the_owner() {
    let question = json!({ "question": { "id": "q1", "questions": [{ "question": "Which?", "options": [{ "label": "a" }] }] } });
    let plan = json!({ "plan": { "id": "p1", "text": "first", "revisions": ["second"] } });
    let (gateway, _folders, _sidecar) =
        playing(json!([turn(json!([question, plan, { "say": "end" }]))])).await;
    gateway.sees("assistant_message tool AskUserQuestion").await;
    let answers = vec![Answer { question: "Which?".into(), answer: "a".into() }];
    let other = Command::Answer {
        request_id: "other".parse().unwrap(),
        answers: answers.clone(),
        modified_input: None,
    };
    let other = gateway.send(other);
    gateway.acknowledged(other, "invalid").await;
    let id =
        gateway.send(Command::Answer { request_id: "q1".parse().unwrap(), answers, modified_input: None });
    gateway.acknowledged(id, "done").await;
    let at = gateway.sees("tool_result").await;
    assert_eq!(gateway.delivered()[at].body["content"]["answers"][0]["answer"], "a");

    gateway.sees("assistant_message tool ExitPlanMode").await;
    let decide = |id: &str, approved| Command::PlanDecision {
        request_id: id.parse().unwrap(),
        approved,
        feedback: Some("shorter".into()),
    };
    gateway.send(decide("p1", false));
    let at = gateway.sees_nth("assistant_message tool ExitPlanMode", 2).await;
    assert_eq!(gateway.delivered()[at].body["content"]["input"]["plan"], "second");
    gateway.send(decide("p1-r1", true));
    gateway.sees("turn_completed").await;
    let errors: Vec<_> = gateway
        .delivered()
        .iter()
        .filter(|e| e.kind() == "tool_result")
        .map(|e| e.body["isError"].clone())
        .collect();
    assert_eq!(errors, [json!(false), json!(true), json!(false)]);
}

#[tokio::test]
async fn later_run_continues_the_conversation_and_totals() {
    let usage = json!({ "usage": { "costUsd": "0.1", "tokens": { "inputTokens": 5 } } });
    let steps = json!([
        turn(json!([usage, { "say": "one" }])),
        { "waitForMessage": {} },
        turn(json!([usage, { "say": "two: {{message}}" }]))
    ]);
    let options = json!({ "script": { "steps": steps } });
    let (gateway, folders, sidecar) = playing_options(options.clone()).await;
    gateway.sees("turn_completed turn-1-1").await;
    gateway.send(Command::Stop {});
    sidecar.ended().await;

    let gateway = Gateway::start().await;
    folders.next_run(&gateway);
    let _sidecar = folders.start();
    gateway.send(begin_with(options, true, None));
    gateway.send(message("go on", MessagePriority::Queued));
    gateway.sees("turn_completed turn-1-2").await;
    let story = gateway.story();
    assert!(story.contains(&"assistant_message text two: go on".to_owned()), "{story:?}");
    assert!(!story.contains(&"assistant_message text one".to_owned()));
    let at = gateway.sees("usage_update").await;
    assert_eq!(gateway.delivered()[at].body["costUsd"], "0.2");
}

#[tokio::test]
async fn unreadable_command_is_refused_and_leaves_the_queue() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([{ "waitForMessage": {} }]))])).await;
    gateway.sees("turn_started").await;
    gateway.send_text("not json".into());
    let id = Gateway::command_id();
    gateway.send_text(json!({ "body": { "commandId": id, "attempt": 1, "type": "fly" } }).to_string());
    gateway.acknowledged(id, "invalid").await;
    gateway.until("an empty queue", |g| (g.undeleted() == 0).then_some(())).await;
}

#[tokio::test]
async fn unplayable_script_is_refused_and_ends_the_agent() {
    let (gateway, _folders, _sidecar) = playing(json!([{ "fly": 1 }])).await;
    gateway.sees("session_end adapter_error").await;
    assert!(gateway.story().contains(&"command_refused invalid".to_owned()));
}

#[tokio::test]
async fn agent_ends_at_the_time_limit_of_its_brief() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let mut launch = folders.launch(&gateway);
    let limits = ResourceLimits { timeout_ms: Some(300), ..ResourceLimits::default() };
    let workspace =
        WorkspaceRequirements { resource_limits: Some(limits), ..WorkspaceRequirements::default() };
    launch.request.workspace = Some(Box::new(workspace));
    folders.write_launch(&launch);
    let _sidecar = folders.start();
    let endless = json!([turn(json!([{ "waitForMessage": {} }]))]);
    gateway.send(begin(json!({ "script": { "steps": endless } })));
    gateway.sees("session_end time_over").await;
    assert!(!gateway.story().iter().any(|event| event == "turn_completed"));
}
