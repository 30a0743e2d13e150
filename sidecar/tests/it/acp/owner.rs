//! Requests of a session's owner to an ACP agent, and of the agent to its owner.

use pilothouse_domain::value::{Adjustment, Answer, MessagePriority};
use pilothouse_wire::Command;

use super::{Harness, fake};
use crate::liveness::outage_with_a_pause;
use crate::sidecar::message;

fn answer(question: &str, answer: &str) -> Vec<Answer> {
    vec![Answer { question: question.into(), answer: answer.into() }]
}

#[tokio::test]
async fn a_prompt_is_a_turn_and_a_message_begins_the_next_one() {
    let harness = Harness::playing("", "say hello").await;
    harness.gateway.sees("turn_completed").await;
    harness.gateway.send(message("say again", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_completed", 2).await;
    let run = harness.gateway.run;
    assert_eq!(
        harness.reported_lines(),
        [
            format!("turn_started {run}.1"),
            "assistant_message text hello".into(),
            format!("turn_completed {run}.1"),
            "message_ack received".into(),
            "message_ack injecting".into(),
            format!("turn_started {run}.2"),
            "message_ack injected".into(),
            "assistant_message text again".into(),
            format!("turn_completed {run}.2"),
        ]
    );
}

#[tokio::test]
async fn owner_grants_a_permission_and_the_agent_continues() {
    for (reply, status) in [("Yes", false), ("nonsense", true)] {
        let harness = Harness::playing("", "ask").await;
        let asked = harness.event("question_asked").await;
        assert_eq!(asked["questions"][0]["question"], "May the agent use Bash: touch x?");
        assert_eq!(asked["questions"][0]["options"][1]["label"], "No");
        let request_id = asked["requestId"].as_str().unwrap().parse().unwrap();
        let id = harness.gateway.send(Command::Answer {
            request_id,
            answers: answer("May the agent use Bash: touch x?", reply),
            modified_input: None,
        });
        harness.gateway.acknowledged(id, "done").await;
        let result = harness.event("tool_result").await;
        assert_eq!(result["isError"], status, "{reply}");
        harness.gateway.sees("turn_completed").await;
        let story = harness.reported_lines();
        let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
        assert!(at("assistant_message tool Bash") < at("question_asked"));
    }
}

#[tokio::test]
async fn configured_tool_is_allowed_at_once() {
    let harness = Harness::empty().await;
    harness.begin(fake(""), false, Some("ask"), |begin| begin.config.allowed_tools = vec!["Bash".into()]);
    harness.gateway.sees("turn_completed").await;
    assert!(!harness.reported_lines().iter().any(|s| s.starts_with("question_asked")));
    assert_eq!(harness.event("tool_result").await["content"], "yes");
}

#[tokio::test]
async fn a_permission_waits_for_the_announcement_of_its_call() {
    let harness = Harness::empty().await;
    harness
        .begin(fake(""), false, Some("ask-early"), |begin| begin.config.allowed_tools = vec!["Bash".into()]);
    harness.gateway.sees("turn_completed").await;
    assert!(
        !harness.reported_lines().iter().any(|s| s.starts_with("question_asked")),
        "{:#?}",
        harness.reported_lines()
    );
    assert_eq!(harness.event("tool_result").await["content"], "yes");
}

#[tokio::test]
async fn a_permission_for_a_call_without_announcement_is_asked_for() {
    let harness = Harness::empty().await;
    harness
        .begin(fake(""), false, Some("ask-alone"), |begin| begin.config.allowed_tools = vec!["Bash".into()]);
    let asked = harness.event("question_asked").await;
    assert_eq!(asked["questions"][0]["question"], "May the agent use execute: touch x?");
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    // An interrupt also withdraws a request that waits for its announcement.
    harness.gateway.send(message("ask-alone 2", MessagePriority::Queued));
    harness.gateway.sees_nth("turn_started", 2).await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    assert_eq!(harness.reported_lines().iter().filter(|s| s.starts_with("question_asked")).count(), 1);
}

#[tokio::test]
async fn owner_fills_in_a_form_of_a_server() {
    let harness = Harness::playing("", "form").await;
    let asked = harness.event("question_asked").await;
    assert_eq!(asked["questions"][0]["question"], "How many?");
    let request_id: pilothouse_domain::ToolCallId = asked["requestId"].as_str().unwrap().parse().unwrap();
    let wrong = Command::Answer {
        request_id: "other".parse().unwrap(),
        answers: answer("How many?", "7"),
        modified_input: None,
    };
    let id = harness.gateway.send(wrong);
    harness.gateway.acknowledged(id, "invalid").await;
    harness.gateway.send(Command::Answer {
        request_id,
        answers: answer("How many?", "7"),
        modified_input: None,
    });
    let said = harness.event("assistant_message text").await;
    assert_eq!(said["content"]["text"], r#"{"action":"accept","content":{"n":7}}"#);
    assert_eq!(harness.abilities()["questions"], true, "it has shown that it asks");
}

#[tokio::test]
async fn interrupt_completes_with_the_prompt_and_ignores_late_updates() {
    let harness = Harness::playing("", "hang").await;
    harness.gateway.sees("assistant_message tool Bash").await;
    let queued = harness.gateway.send(message("say later", MessagePriority::Queued));
    harness.gateway.acknowledged(queued, "received").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    harness.gateway.acknowledged(queued, "turn-over").await;
    // The agent's late message follows the interrupt. The next event shows that it was skipped.
    harness.gateway.send(message("say next", MessagePriority::Queued));
    harness.gateway.sees("turn_completed").await;
    let story = harness.reported_lines();
    assert!(!story.iter().any(|s| s.contains("late")), "{story:#?}");
    let result = harness.event("tool_result").await;
    assert_eq!((&result["isError"], result["toolCallId"].as_str()), (&true.into(), Some("c2")));
    let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
    assert!(at("tool_result") < at("interrupt_ack done"));
    assert_eq!(story.iter().filter(|s| s.starts_with("turn_completed")).count(), 1);
}

#[tokio::test]
async fn interrupt_withdraws_an_open_permission() {
    let harness = Harness::playing("", "ask").await;
    harness.gateway.sees("question_asked").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    let story = harness.reported_lines();
    assert!(story.iter().any(|s| s.contains("the permission was cancelled")), "{story:#?}");
}

#[tokio::test]
async fn turn_that_ends_by_a_withdrawn_request_is_interrupted() {
    let harness = Harness::playing("ends-turn", "ask").await;
    harness.gateway.sees("question_asked").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
    let story = harness.reported_lines();
    assert!(!story.iter().any(|s| s.starts_with("turn_completed")), "{story:#?}");
}

#[tokio::test]
async fn immediate_message_uses_the_extension_or_the_next_turn() {
    let harness = Harness::playing("steer", "work").await;
    harness.gateway.sees("assistant_message tool Bash").await;
    let id = harness.gateway.send(message("faster", MessagePriority::Immediate));
    harness.gateway.acknowledged(id, "injected").await;
    harness.gateway.sees("turn_completed").await;
    assert!(harness.reported_lines().iter().any(|s| s == "assistant_message text steered: faster"));
    assert_eq!(harness.reported_lines().iter().filter(|s| s.starts_with("turn_started")).count(), 1);

    let harness = Harness::playing("", "ask").await;
    harness.gateway.sees("question_asked").await;
    let id = harness.gateway.send(message("say after", MessagePriority::Immediate));
    harness.gateway.acknowledged(id, "received").await;
    let request_id = "c1".parse().unwrap();
    harness.gateway.send(Command::Answer {
        request_id,
        answers: answer("May the agent use Bash: touch x?", "Yes"),
        modified_input: None,
    });
    harness.gateway.acknowledged(id, "injected").await;
    harness.gateway.sees_nth("turn_completed", 2).await;
    let story = harness.reported_lines();
    let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
    assert!(at("turn_completed") < at("message_ack injecting"));
}

#[tokio::test]
async fn pause_stops_the_agent_and_all_events() {
    let harness = Harness::playing("steer", "work").await;
    harness.gateway.sees("assistant_message tool Bash").await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let count = harness.reported_lines().len();
    let id = harness.gateway.send(message("faster", MessagePriority::Immediate));
    harness.gateway.acknowledged(id, "received").await;
    assert_eq!(harness.reported_lines().len(), count + 1, "only that the sidecar has the message");
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.acknowledged(id, "injected").await;
    harness.gateway.sees("turn_completed").await;
    // A paused turn can be interrupted.
    harness.gateway.send(message("hang", MessagePriority::Queued));
    harness.gateway.sees_nth("assistant_message tool Bash", 2).await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let interrupt = harness.gateway.send(Command::Interrupt {});
    harness.gateway.acknowledged(interrupt, "done").await;
}

#[tokio::test]
async fn model_is_set_if_the_agent_offers_models() {
    let harness = Harness::empty().await;
    harness.begin(fake(""), false, None, |begin| begin.config.model_id = "large".into());
    let settings = harness.event("agent_settings").await;
    assert_eq!(settings["modelId"], "large");
    assert_eq!(settings["availableModels"], serde_json::json!(["small", "large"]));
    let adjust =
        |model: &str| Command::Adjust { adjustment: Adjustment::SetModel { model_id: model.into() } };
    let id = harness.gateway.send(adjust("small"));
    harness.gateway.acknowledged(id, "done").await;
    let id = harness.gateway.send(adjust("huge"));
    harness.gateway.acknowledged(id, "invalid").await;
    assert_eq!(harness.gateway.delivered().iter().filter(|e| e.kind() == "agent_settings").count(), 2);
}

fn allowance(usd: &str) -> Command {
    Command::Adjust { adjustment: Adjustment::SetAllowance { allowance_usd: Some(usd.into()) } }
}

#[tokio::test]
async fn spent_allowance_holds_the_agent_until_it_is_raised() {
    let harness = Harness::empty().await;
    harness.begin(fake(""), false, Some("spend a b c"), |begin| begin.allowance_usd = Some("2".into()));
    harness.gateway.sees("budget_exceeded").await;
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    let lines = harness.reported_lines();
    let has = |what: &str| lines.iter().any(|line| line.starts_with(what));
    assert!(has("assistant_message text a") && !has("assistant_message text b"), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("tool_result")).count(), 1, "{lines:#?}");
    // A raised allowance does not end the owner's pause; the resume does.
    let raise = harness.gateway.send(allowance("2.5"));
    harness.gateway.acknowledged(raise, "done").await;
    harness.gateway.send(Command::Resume {});
    // The third dollar exceeds this allowance, too. The turn is not paused, and continues with a higher one.
    harness.gateway.sees_nth("budget_exceeded", 2).await;
    harness.gateway.send(allowance("10"));
    harness.gateway.sees("turn_completed").await;
    let lines = harness.reported_lines();
    for said in ["a", "b", "c"] {
        let text = format!("assistant_message text {said}");
        assert_eq!(lines.iter().filter(|line| **line == text).count(), 1, "{lines:#?}");
    }
}

#[tokio::test]
async fn agent_is_held_before_a_call_that_exceeds_its_allowance() {
    // No table has the model's price. It is learned from the first two dollars; the third call takes one as well.
    let harness = Harness::empty().await;
    harness.begin(fake(""), false, Some("spend a b c"), |begin| begin.allowance_usd = Some("2.5".into()));
    let held = harness.event("budget_exceeded").await;
    assert_eq!((held["neededUsd"].as_str(), held["leftUsd"].as_str()), (Some("1"), Some("0.5")));
    let lines = harness.reported_lines();
    let has = |what: &str| lines.iter().any(|line| line == what);
    assert!(has("assistant_message text b") && !has("assistant_message text c"), "{lines:#?}");
    harness.gateway.send(allowance("10"));
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn unmetered_agent_waits_for_the_permission_of_its_owner() {
    // The agent reports no cost, and its model has no price.
    let mut options = fake("");
    options["agent"] = "codex".into();
    let harness = Harness::empty().await;
    harness.begin(options.clone(), false, Some("say hello"), |begin| begin.allowance_usd = Some("5".into()));
    harness.gateway.sees("turn_started").await;
    assert_eq!(harness.abilities()["unmetered"], true);
    let pause = harness.gateway.send(Command::Pause {});
    harness.gateway.acknowledged(pause, "done").await;
    assert!(
        !harness.reported_lines().iter().any(|line| line.starts_with("assistant_message")),
        "{:#?}",
        harness.reported_lines()
    );
    harness.gateway.send(Command::Resume {});
    harness.gateway.sees("turn_completed").await;
    // Allowed from the beginning.
    let harness = Harness::empty().await;
    harness.begin(options, false, Some("say hello"), |begin| begin.allow_unmetered = true);
    harness.gateway.sees("turn_completed").await;
    assert_eq!(harness.abilities()["unmetered"], true);
}

/// The server is away before its pause arrives, so the sidecar pauses and resumes the agent on its own.
#[tokio::test]
async fn end_of_an_outage_is_no_permission_for_unmetered_work() {
    let mut options = fake("");
    options["agent"] = "codex".into();
    let harness = Harness::launched(|launch| launch.offline.unpriced_seconds = 0.1).await;
    harness.begin(options, false, Some("say hello"), |begin| begin.allowance_usd = Some("5".into()));
    harness.gateway.sees("turn_started").await;
    outage_with_a_pause(&harness.gateway, &harness.folders).await;
    assert!(
        !harness.reported_lines().iter().any(|line| line.starts_with("assistant_message")),
        "{:#?}",
        harness.reported_lines()
    );
    let resume = harness.gateway.send(Command::Resume {});
    harness.gateway.acknowledged(resume, "done").await;
    harness.gateway.sees("turn_completed").await;
}

#[tokio::test]
async fn agent_without_cost_reports_is_unmetered_after_one_turn() {
    let harness = Harness::playing("", "say hello").await;
    harness.gateway.sees("turn_completed").await;
    let unmetered = |_: &crate::gateway::Gateway| (harness.abilities()["unmetered"] == true).then_some(());
    harness.gateway.until("its missing capabilities", unmetered).await;
}
