//! Images of prompts (decision 100).

use pilothouse_domain::value::MessagePriority;

use super::{Stage, fake};
use crate::gateway::{GIF, PNG, base64};
use crate::sidecar::message_with;

#[tokio::test]
async fn agent_that_accepts_images_gets_them_in_prompts_and_messages() {
    let stage = Stage::empty().await;
    let (first, second) = (stage.gateway.image(PNG), stage.gateway.image(GIF));
    stage.begin(fake("image,steer"), false, Some("images"), |begin| begin.images = vec![first]);
    let seen = format!("assistant_message text seen: image/png {}", base64(PNG));
    stage.gateway.sees(&seen).await;
    stage.gateway.sees("turn_completed").await;

    stage.gateway.send(message_with("work", Vec::new(), MessagePriority::Queued));
    stage.gateway.sees("assistant_message text working").await;
    let id = stage.gateway.send(message_with("look", vec![second], MessagePriority::Immediate));
    stage.gateway.acknowledged(id, "injected").await;
    let steered = format!("assistant_message text steered: look image/gif {}", base64(GIF));
    stage.gateway.sees(&steered).await;
    assert!(!stage.told().iter().any(|line| line.contains("images_left_out")), "{:#?}", stage.told());
}

#[tokio::test]
async fn agent_that_accepts_no_images_gets_a_note_about_them() {
    let stage = Stage::empty().await;
    let shown = stage.gateway.image(PNG);
    stage.begin(fake(""), false, Some("say yes"), |begin| begin.images = vec![shown.clone()]);
    let notice = stage.event("notice images_left_out").await;
    assert!(notice["summary"].as_str().unwrap().ends_with("the agent does not accept images"), "{notice}");
    let said = stage.event("assistant_message").await;
    let text = said["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("yes") && text.contains("You cannot receive it."), "{text}");
    stage.gateway.sees("turn_completed").await;
    let id = stage.gateway.send(message_with("say no", vec![shown; 2], MessagePriority::Queued));
    stage.gateway.acknowledged(id, "injected").await;
    stage.gateway.sees_nth("notice images_left_out", 2).await;
    stage.gateway.sees("assistant_message text no").await;
}
