//! Messages: for the running turn, for later, or refused.

use pilothouse_domain::value::MessagePriority;
use pilothouse_wire::Command;
use serde_json::json;

use crate::gateway::{GIF, Gateway, PNG};
use crate::sidecar::{Folders, begin, message, message_with, much, playing, turn};

#[tokio::test]
async fn immediate_message_enters_the_running_turn() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([much(400)]))])).await;
    gateway.sees_nth("assistant_message", 5).await;
    let id = gateway.send(message("faster", MessagePriority::Immediate));
    gateway.acknowledged(id, "injected").await;
    gateway.sees("turn_completed").await;
    let story = gateway.story();
    let of_message = |s: &String| s.starts_with("message_ack") || s.contains("faster");
    let about: Vec<_> = story.iter().filter(|s| of_message(s)).cloned().collect();
    assert_eq!(
        about,
        [
            "message_ack received",
            "message_ack injecting",
            "message_ack injected",
            "assistant_message text Understood, I take this into account: faster"
        ]
    );
    assert_eq!(story.iter().filter(|s| s.starts_with("turn_started")).count(), 1);
}

#[tokio::test]
async fn queued_message_waits_and_blocks_no_other_command() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([much(400)]))])).await;
    gateway.sees_nth("assistant_message", 5).await;
    let queued = gateway.send(message("later", MessagePriority::Queued));
    gateway.acknowledged(queued, "received").await;
    let pause = gateway.send(Command::Pause {});
    gateway.acknowledged(pause, "done").await;
    assert!(!gateway.story().contains(&"message_ack injecting".to_owned()));
    gateway.send(Command::Resume {});
    gateway.acknowledged(queued, "injected").await;
    gateway.sees("assistant_message text You said: later").await;
    let story = gateway.story();
    let at = |what: &str| story.iter().position(|s| s == what).unwrap();
    assert!(at("turn_completed turn-1-1") < at("message_ack injecting"));
}

#[tokio::test]
async fn message_for_an_ended_turn_is_refused() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([{ "say": "hi" }]))])).await;
    gateway.sees("turn_completed").await;
    let Command::SteeringMessage { message_id, content, images, priority, source, .. } =
        message("too late", MessagePriority::Immediate)
    else {
        unreachable!()
    };
    let expected_turn_id = Some("turn-1-1".parse().unwrap());
    let late = Command::SteeringMessage { message_id, content, images, priority, source, expected_turn_id };
    let id = gateway.send(late);
    gateway.acknowledged(id, "turn-over").await;
}

#[tokio::test]
async fn a_script_waits_for_a_message_within_a_turn() {
    let steps =
        json!([turn(json!([{ "say": "ready" }, { "waitForMessage": {} }, { "say": "got: {{message}}" }]))]);
    let (gateway, _folders, _sidecar) = playing(steps).await;
    gateway.sees("assistant_message text ready").await;
    gateway.send(message("this", MessagePriority::Immediate));
    gateway.sees("assistant_message text got: this").await;
    gateway.sees("turn_completed").await;
    assert!(!gateway.story().iter().any(|s| s.contains("Understood")));
}

#[tokio::test]
async fn message_received_by_another_command_is_not_repeated() {
    let (gateway, _folders, _sidecar) = playing(json!([turn(json!([{ "say": "hi" }]))])).await;
    gateway.sees("turn_completed").await;
    let command = message("once", MessagePriority::Queued);
    gateway.send(command.clone());
    gateway.sees("assistant_message text You said: once").await;
    let second = gateway.send(command);
    gateway.acknowledged(second, "injected").await;
    let last = gateway.send(Command::Pause {});
    gateway.acknowledged(last, "done").await;
    assert_eq!(gateway.story().iter().filter(|s| s.contains("You said: once")).count(), 1);
}

#[tokio::test]
async fn script_tells_which_images_it_received() {
    let steps = json!([turn(
        json!([{ "say": "at first: {{images}}" }, { "waitForMessage": {} }, { "say": "then: {{images}}" }])
    )]);
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    let _sidecar = folders.start();
    let mut begin = begin(json!({ "script": { "steps": steps } }));
    let Command::Begin(given) = &mut begin else { panic!() };
    given.images = vec![gateway.image(PNG)];
    gateway.send(begin);
    gateway.sees(&format!("assistant_message text at first: image/png ({} bytes)", PNG.len())).await;
    let images = vec![gateway.image(GIF), gateway.image(PNG)];
    gateway.send(message_with("these", images, MessagePriority::Immediate));
    gateway.sees("assistant_message text then: image/gif").await;
    let story = gateway.story();
    let said = story.iter().find(|line| line.contains("then:")).unwrap();
    assert!(said.ends_with(&format!("image/png ({} bytes)", PNG.len())), "{said}");
}
