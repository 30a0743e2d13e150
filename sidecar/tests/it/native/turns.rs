//! Turns: their events, and messages during and after them.

use pilothouse_domain::value::{MessagePriority, MessageSource};
use pilothouse_model_server::{Failure, Step, Stop};
use pilothouse_wire::Command;
use serde_json::json;

use super::{Agent, bash, begun, let_go, waiting};
use crate::delivery::assert_complete;
use crate::sidecar::message;

#[tokio::test]
async fn agent_works_in_its_folder_and_reports_in_order() {
    let agent = Agent::idle(pilothouse_model_server::Script::of([
        Step::text("I look.")
            .thinking("Where am I?")
            .and_tool("bash", json!({ "command": "echo hi > made; cat made" })),
        Step::tool("submit_output", json!({ "allTestsPassing": true, "testsAdded": 1, "filesChanged": 1 })),
        Step::text("Done."),
    ]))
    .await;
    agent.begin(|begin| begin.config.adapter_options["thinkingLevel"] = "high".into());
    let end = agent.gateway.sees("turn_completed").await;
    assert_complete(&agent.gateway);
    let delivered = agent.gateway.delivered();
    let story: Vec<_> = agent.story().into_iter().filter(|line| line != "log_chunk").collect();
    // Usage and settings are reported at times that may vary.
    let order: Vec<_> = story
        .iter()
        .map(String::as_str)
        .filter(|line| !["usage_update", "agent_settings"].contains(line))
        .map(|line| if line.starts_with("result ok: Submitted") { "result of the output" } else { line })
        .collect();
    let expected = [
        "sidecar_ready",
        "turn_started",
        "thinking Where am I?",
        "text I look.",
        "tool bash",
        "result ok: hi",
        "tool submit_output",
        "result of the output",
        "text Done.",
        "turn_completed",
    ];
    assert_eq!(order, expected, "{story:#?}");
    assert_eq!(story.iter().filter(|line| *line == "usage_update").count(), 3, "one a model call");
    assert_eq!(std::fs::read_to_string(agent.work().join("made")).unwrap(), "hi\n");
    let completed = &delivered[end].body;
    assert_eq!(completed["output"]["allTestsPassing"], true, "{completed}");
    let started = delivered.iter().find(|e| e.kind() == "turn_started").unwrap();
    assert_eq!(completed["turnId"], started.body["turnId"]);
    let settings = delivered.iter().find(|e| e.kind() == "agent_settings").unwrap();
    assert_eq!(settings.body["modelId"], super::MODEL);
    let totals: Vec<f64> = delivered
        .iter()
        .filter(|e| e.kind() == "usage_update")
        .map(|e| e.body["costUsd"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(totals.windows(2).all(|two| two[0] < two[1]) && totals[0] > 0.0, "{totals:?}");
    assert_eq!(agent.requests().len(), 3);
}

#[tokio::test]
async fn message_into_the_turn_skips_the_batch_and_is_read_next() {
    let agent = Agent::idle(pilothouse_model_server::Script::default()).await;
    let first = waiting(&agent.work(), "first");
    agent.model.play(pilothouse_model_server::Script::of([
        bash(&first).and_tool("bash", json!({ "command": "touch second" })),
        Step::text("To the left, then."),
    ]));
    agent.begin(|_| {});
    begun(&agent, "first").await;
    let id = agent.gateway.send(message("to the left", MessagePriority::Immediate));
    agent.gateway.acknowledged(id, "received").await;
    assert!(
        !agent.gateway.story().contains(&"message_ack injecting".to_owned()),
        "it is not given before its time"
    );
    let_go(&agent, "first");
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees("turn_completed").await;
    assert!(!agent.work().join("second").exists(), "the rest of the batch is skipped");
    let story = agent.story();
    assert!(story.iter().any(|line| line == "result ok: went on"), "{story:#?}");
    assert_eq!(story.iter().filter(|line| line.starts_with("result error")).count(), 1, "{story:#?}");
    assert!(agent.last_request().to_string().contains("to the left"));
    assert_eq!(story.iter().filter(|line| *line == "turn_started").count(), 1);
}

#[tokio::test]
async fn message_during_the_last_answer_continues_the_turn() {
    let agent = Agent::says([
        Step::text("I believe I am done.").waiting("speak"),
        Step::text("One more thing, then."),
    ])
    .await;
    agent.model.wait_for(1).await;
    let id = agent.gateway.send(message("one more thing", MessagePriority::Immediate));
    agent.gateway.acknowledged(id, "received").await;
    // Commands are processed in order, so the driver has the message by now.
    let nothing = agent.gateway.send(Command::Adjust {
        adjustment: pilothouse_domain::value::Adjustment::SetAllowance { allowance_usd: None },
    });
    agent.gateway.acknowledged(nothing, "done").await;
    agent.model.open("speak");
    agent.gateway.acknowledged(id, "injected").await;
    agent.gateway.sees("assistant_message text One more thing").await;
    agent.gateway.sees("turn_completed").await;
    let story = agent.gateway.story();
    assert_eq!(story.iter().filter(|line| line.starts_with("turn_started")).count(), 1, "{story:#?}");
}

#[tokio::test]
async fn queued_message_starts_a_turn_and_a_stale_one_is_refused() {
    let agent = Agent::says([Step::text("First.").waiting("speak"), Step::text("Second.")]).await;
    agent.model.wait_for(1).await;
    let queued = agent.gateway.send(message("then this", MessagePriority::Queued));
    agent.gateway.acknowledged(queued, "received").await;
    agent.model.open("speak");
    agent.gateway.acknowledged(queued, "injected").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    let delivered = agent.gateway.delivered();
    let turns: Vec<_> = delivered.iter().filter(|e| e.kind() == "turn_started").collect();
    assert_eq!(turns.len(), 2);
    assert!(turns[0].body.get("messageId").is_none() && turns[1].body["messageId"].is_string());
    let Command::SteeringMessage { message_id, content, images, priority, source, .. } =
        message("too late", MessagePriority::Immediate)
    else {
        unreachable!()
    };
    let expected_turn_id = Some(turns[0].body["turnId"].as_str().unwrap().parse().unwrap());
    let late = Command::SteeringMessage { message_id, content, images, priority, source, expected_turn_id };
    let id = agent.gateway.send(late);
    agent.gateway.acknowledged(id, "turn-over").await;
}

#[tokio::test]
async fn failed_call_is_retried_and_a_permanent_failure_is_final() {
    let overloaded = || Failure::Overloaded;
    let agent = Agent::says([
        Step::text("After all.")
            .failing([overloaded(), Failure::RateLimited { retry_after: None, retry_after_date: None }]),
        Step::text("At last.").failing([overloaded(), overloaded(), overloaded(), overloaded()]),
        Step::text("Never said.").failing([Failure::Unauthorized]),
    ])
    .await;
    agent.gateway.sees("turn_completed").await;
    let story = agent.gateway.story();
    assert_eq!(
        story.iter().filter(|line| line.starts_with("notice auto_retry_start")).count(),
        2,
        "{story:#?}"
    );
    assert!(story.iter().any(|line| line.starts_with("notice auto_retry_end")), "{story:#?}");
    agent.gateway.send(message("again", MessagePriority::Queued));
    let unavailable = agent.gateway.sees("model_unavailable").await;
    let unavailable = &agent.gateway.delivered()[unavailable].body;
    assert!(unavailable["message"].as_str().is_some_and(|why| !why.is_empty()), "{unavailable}");
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    assert_eq!(agent.gateway.story().iter().filter(|line| line.starts_with("turn_completed")).count(), 1);
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("assistant_message text At last.").await;
    agent.gateway.sees_nth("turn_completed", 2).await;
    agent.gateway.send(message("once more", MessagePriority::Queued));
    let end = agent.gateway.sees("session_end").await;
    let end = &agent.gateway.delivered()[end].body;
    assert_eq!((&end["isError"], &end["reason"]), (&json!(true), &json!("model_error")), "{end}");
    assert!(end["message"].as_str().is_some_and(|why| !why.is_empty()) && end["stack"].is_null(), "{end}");
}

#[tokio::test]
async fn owner_command_runs_during_a_turn_and_joins_the_conversation() {
    let agent = Agent::says([bash("mkfifo a; touch a.begun; read word < a"), Step::text("Done.")]).await;
    begun(&agent, "a").await;
    let command = agent.gateway.send(message("!echo seen-$((40 + 2))", MessagePriority::Immediate));
    agent.gateway.acknowledged(command, "injected").await;
    let_go(&agent, "a");
    agent.gateway.sees("turn_completed").await;
    let asked = agent.last_request()["messages"].to_string();
    assert!(asked.contains("I ran this command") && asked.contains("seen-42"), "{asked}");
    assert!(agent.story().contains(&"result ok: seen-42".to_owned()), "{:#?}", agent.story());
}

#[tokio::test]
async fn interrupt_ends_a_command_of_the_owner() {
    let agent = Agent::says([bash("mkfifo a; touch a.begun; read word < a")]).await;
    begun(&agent, "a").await;
    let command = message("!mkfifo b; touch b.begun; read word < b", MessagePriority::Immediate);
    let command = agent.gateway.send(command);
    begun(&agent, "b").await;
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(command, "turn-over").await;
    agent.gateway.acknowledged(interrupt, "done").await;
}

#[tokio::test]
async fn option_env_reaches_commands_and_hides_its_secrets() {
    let agent = Agent::idle(pilothouse_model_server::Script::of([
        bash("echo $GREETING ${#MY_TOKEN} $MY_TOKEN"),
        Step::text("Done."),
    ]))
    .await;
    let env = json!({ "GREETING": "ahoy", "MY_TOKEN": "$ANTHROPIC_API_KEY" });
    agent.begin(|begin| begin.config.adapter_options["env"] = env);
    agent.gateway.sees("turn_completed").await;
    let length = super::KEY.len();
    let story = agent.story();
    assert!(story.iter().any(|line| line.contains(&format!("ahoy {length} [secret]"))), "{story:#?}");
}

#[tokio::test]
async fn cut_and_refused_replies_are_reported() {
    let cut = Step { stop: Some(Stop::Length), ..Step::text("and then") };
    let refused = Step { stop: Some(Stop::Refusal), ..Step::text("I will not.") };
    let agent = Agent::says([cut, refused]).await;
    agent.gateway.sees("notice max_tokens").await;
    agent.gateway.sees("turn_completed").await;
    agent.gateway.send(message("and this?", MessagePriority::Queued));
    agent.gateway.sees("notice refusal").await;
}

#[tokio::test]
async fn pause_is_confirmed_while_a_retry_waits() {
    let wait = Failure::RateLimited { retry_after: Some(3_600), retry_after_date: None };
    let agent = Agent::says([Step::text("Never said.").failing([wait])]).await;
    agent.gateway.sees("notice auto_retry_start").await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
}

#[tokio::test]
async fn agent_without_a_model_refuses_begin() {
    let agent = Agent::idle(pilothouse_model_server::Script::default()).await;
    agent.begin(|begin| begin.config.model_id = "openai/gpt-5".into());
    let refused = agent.gateway.sees("command_refused invalid").await;
    let refused = &agent.gateway.delivered()[refused].body;
    assert!(refused["message"].as_str().unwrap().contains("`openai` has no key"), "{refused}");
}

#[tokio::test]
async fn owner_command_runs_as_a_turn_and_is_shown_unless_excluded() {
    let agent = Agent::says([Step::text("One."), Step::text("Two.")]).await;
    agent.gateway.sees("turn_completed").await;
    for (nth, command) in [(2, "!echo seen-$((40 + 2))"), (3, "!!echo unseen-$((40 + 3))")] {
        let id = agent.gateway.send(message(command, MessagePriority::Queued));
        agent.gateway.acknowledged(id, "injected").await;
        agent.gateway.sees_nth("turn_completed", nth).await;
    }
    let story = agent.story();
    assert!(story.contains(&"result ok: seen-42".to_owned()), "{story:#?}");
    assert!(story.contains(&"result ok: unseen-43".to_owned()), "{story:#?}");
    assert_eq!(agent.requests().len(), 1, "the model is not asked about it");
    agent.gateway.send(message("what did it say?", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 4).await;
    let last = agent.last_request()["messages"].to_string();
    assert!(last.contains("seen-42") && !last.contains("unseen-43"), "{last}");
}

#[tokio::test]
async fn command_like_text_from_others_is_plain_text() {
    let agent = Agent::says([Step::text("One."), Step::text("I see."), Step::text("I see.")]).await;
    agent.gateway.sees("turn_completed").await;
    for (nth, sender) in [(2, MessageSource::System), (3, MessageSource::Webhook)] {
        let Command::SteeringMessage { message_id, content, images, priority, expected_turn_id, .. } =
            message("!touch made", MessagePriority::Queued)
        else {
            unreachable!()
        };
        let source = sender;
        agent.gateway.send(Command::SteeringMessage {
            message_id,
            content,
            images,
            priority,
            source,
            expected_turn_id,
        });
        agent.gateway.sees_nth("turn_completed", nth).await;
        assert!(agent.last_request().to_string().contains("!touch made"), "{sender:?}");
    }
    assert!(!agent.work().join("made").exists());
}

#[tokio::test]
async fn interrupt_ends_an_owner_command() {
    let agent = Agent::says([Step::text("One.")]).await;
    agent.gateway.sees("turn_completed").await;
    let first = waiting(&agent.work(), "first");
    agent.gateway.send(message(&format!("!{first}; touch after"), MessagePriority::Queued));
    begun(&agent, "first").await;
    let interrupt = agent.gateway.send(pilothouse_wire::Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    assert!(!agent.work().join("after").exists());
}
