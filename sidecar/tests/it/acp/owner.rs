//! What the owner of a session asks of an ACP agent, and is asked by it.

use pilothouse_domain::value::{Adjustment, Answer, MessagePriority};
use pilothouse_wire::Command;

use super::{Stage, fake};
use crate::sidecar::message;

fn answer(question: &str, answer: &str) -> Vec<Answer> {
    vec![Answer { question: question.into(), answer: answer.into() }]
}

#[tokio::test]
async fn a_prompt_is_a_turn_and_a_message_begins_the_next_one() {
    let stage = Stage::playing("", "say hello").await;
    stage.gateway.sees("turn_completed").await;
    stage.gateway.send(message("say again", MessagePriority::Queued));
    stage.gateway.sees_nth("turn_completed", 2).await;
    let run = stage.gateway.run;
    assert_eq!(
        stage.told(),
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
async fn a_permission_is_the_owners_to_give_and_the_agent_goes_on_with_the_answer() {
    for (reply, status) in [("Yes", false), ("nonsense", true)] {
        let stage = Stage::playing("", "ask").await;
        let asked = stage.event("question_asked").await;
        assert_eq!(asked["questions"][0]["question"], "May the agent use Bash: touch x?");
        assert_eq!(asked["questions"][0]["options"][1]["label"], "No");
        let request_id = asked["requestId"].as_str().unwrap().parse().unwrap();
        let id = stage
            .gateway
            .send(Command::Answer { request_id, answers: answer("May the agent use Bash: touch x?", reply) });
        stage.gateway.acknowledged(id, "done").await;
        let result = stage.event("tool_result").await;
        assert_eq!(result["isError"], status, "{reply}");
        stage.gateway.sees("turn_completed").await;
        let story = stage.told();
        let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
        assert!(at("assistant_message tool Bash") < at("question_asked"));
    }
}

#[tokio::test]
async fn a_tool_that_the_configuration_lists_is_allowed_at_once() {
    let stage = Stage::empty().await;
    stage.begin(fake(""), false, Some("ask"), |begin| begin.config.allowed_tools = vec!["Bash".into()]);
    stage.gateway.sees("turn_completed").await;
    assert!(!stage.told().iter().any(|s| s.starts_with("question_asked")));
    assert_eq!(stage.event("tool_result").await["content"], "yes");
}

#[tokio::test]
async fn a_form_of_a_server_is_filled_in_by_the_owner() {
    let stage = Stage::playing("", "form").await;
    let asked = stage.event("question_asked").await;
    assert_eq!(asked["questions"][0]["question"], "How many?");
    let request_id: pilothouse_domain::ToolCallId = asked["requestId"].as_str().unwrap().parse().unwrap();
    let wrong = Command::Answer { request_id: "other".parse().unwrap(), answers: answer("How many?", "7") };
    let id = stage.gateway.send(wrong);
    stage.gateway.acknowledged(id, "invalid").await;
    stage.gateway.send(Command::Answer { request_id, answers: answer("How many?", "7") });
    let said = stage.event("assistant_message text").await;
    assert_eq!(said["content"]["text"], r#"{"action":"accept","content":{"n":7}}"#);
}

#[tokio::test]
async fn an_interrupt_is_done_when_the_prompt_is_answered_and_late_words_are_no_part_of_anything() {
    let stage = Stage::playing("", "hang").await;
    stage.gateway.sees("assistant_message tool Bash").await;
    let queued = stage.gateway.send(message("say later", MessagePriority::Queued));
    stage.gateway.acknowledged(queued, "received").await;
    let interrupt = stage.gateway.send(Command::Interrupt {});
    stage.gateway.acknowledged(interrupt, "done").await;
    stage.gateway.acknowledged(queued, "turn-over").await;
    // The agent's late words are behind the interrupt; what follows them shows that they were passed over.
    stage.gateway.send(message("say next", MessagePriority::Queued));
    stage.gateway.sees("turn_completed").await;
    let story = stage.told();
    assert!(!story.iter().any(|s| s.contains("late")), "{story:#?}");
    let result = stage.event("tool_result").await;
    assert_eq!((&result["isError"], result["toolCallId"].as_str()), (&true.into(), Some("c2")));
    let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
    assert!(at("tool_result") < at("interrupt_ack done"));
    assert_eq!(story.iter().filter(|s| s.starts_with("turn_completed")).count(), 1);
}

#[tokio::test]
async fn an_interrupt_takes_an_open_permission_back() {
    let stage = Stage::playing("", "ask").await;
    stage.gateway.sees("question_asked").await;
    let interrupt = stage.gateway.send(Command::Interrupt {});
    stage.gateway.acknowledged(interrupt, "done").await;
    let story = stage.told();
    assert!(story.iter().any(|s| s.contains("the permission was cancelled")), "{story:#?}");
}

#[tokio::test]
async fn an_immediate_message_goes_into_the_turn_by_the_extension_and_else_after_it() {
    let stage = Stage::playing("steer", "work").await;
    stage.gateway.sees("assistant_message tool Bash").await;
    let id = stage.gateway.send(message("faster", MessagePriority::Immediate));
    stage.gateway.acknowledged(id, "injected").await;
    stage.gateway.sees("turn_completed").await;
    assert!(stage.told().iter().any(|s| s == "assistant_message text steered: faster"));
    assert_eq!(stage.told().iter().filter(|s| s.starts_with("turn_started")).count(), 1);

    let stage = Stage::playing("", "ask").await;
    stage.gateway.sees("question_asked").await;
    let id = stage.gateway.send(message("say after", MessagePriority::Immediate));
    stage.gateway.acknowledged(id, "received").await;
    let request_id = "c1".parse().unwrap();
    stage
        .gateway
        .send(Command::Answer { request_id, answers: answer("May the agent use Bash: touch x?", "Yes") });
    stage.gateway.acknowledged(id, "injected").await;
    stage.gateway.sees_nth("turn_completed", 2).await;
    let story = stage.told();
    let at = |what: &str| story.iter().position(|s| s.starts_with(what)).unwrap();
    assert!(at("turn_completed") < at("message_ack injecting"));
}

#[tokio::test]
async fn a_pause_stops_everything_and_nothing_is_told_before_it_goes_on() {
    let stage = Stage::playing("steer", "work").await;
    stage.gateway.sees("assistant_message tool Bash").await;
    let pause = stage.gateway.send(Command::Pause {});
    stage.gateway.acknowledged(pause, "done").await;
    let told = stage.told().len();
    let id = stage.gateway.send(message("faster", MessagePriority::Immediate));
    stage.gateway.acknowledged(id, "received").await;
    assert_eq!(stage.told().len(), told + 1, "only that the sidecar has the message");
    let resume = stage.gateway.send(Command::Resume {});
    stage.gateway.acknowledged(resume, "done").await;
    stage.gateway.acknowledged(id, "injected").await;
    stage.gateway.sees("turn_completed").await;
    // A paused turn can be interrupted.
    stage.gateway.send(message("hang", MessagePriority::Queued));
    stage.gateway.sees_nth("assistant_message tool Bash", 2).await;
    let pause = stage.gateway.send(Command::Pause {});
    stage.gateway.acknowledged(pause, "done").await;
    let interrupt = stage.gateway.send(Command::Interrupt {});
    stage.gateway.acknowledged(interrupt, "done").await;
}

#[tokio::test]
async fn the_model_is_set_where_the_agent_offers_models() {
    let stage = Stage::empty().await;
    stage.begin(fake(""), false, None, |begin| begin.config.model_id = "large".into());
    let settings = stage.event("agent_settings").await;
    assert_eq!(settings["modelId"], "large");
    assert_eq!(settings["availableModels"], serde_json::json!(["small", "large"]));
    let adjust =
        |model: &str| Command::Adjust { adjustment: Adjustment::SetModel { model_id: model.into() } };
    let id = stage.gateway.send(adjust("small"));
    stage.gateway.acknowledged(id, "done").await;
    let id = stage.gateway.send(adjust("huge"));
    stage.gateway.acknowledged(id, "invalid").await;
    assert_eq!(stage.gateway.delivered().iter().filter(|e| e.kind() == "agent_settings").count(), 2);
}
