//! Images of prompts (decision 100).

use pilothouse_domain::value::MessagePriority;

use super::{Harness, fake};
use crate::gateway::{GIF, PNG, base64};
use crate::sidecar::message_with;

#[tokio::test]
async fn agent_that_accepts_images_gets_them_in_prompts_and_messages() {
    let harness = Harness::empty().await;
    let (first, second) = (harness.gateway.image(PNG), harness.gateway.image(GIF));
    harness.begin(fake("image,steer"), false, Some("images"), |begin| begin.images = vec![first]);
    let seen = format!("assistant_message text seen: image/png {}", base64(PNG));
    harness.gateway.sees(&seen).await;
    harness.gateway.sees("turn_completed").await;

    harness.gateway.send(message_with("work", Vec::new(), MessagePriority::Queued));
    harness.gateway.sees("assistant_message text working").await;
    let id = harness.gateway.send(message_with("look", vec![second], MessagePriority::Immediate));
    harness.gateway.acknowledged(id, "injected").await;
    let steered = format!("assistant_message text steered: look image/gif {}", base64(GIF));
    harness.gateway.sees(&steered).await;
    assert!(
        !harness.reported_lines().iter().any(|line| line.contains("images_left_out")),
        "{:#?}",
        harness.reported_lines()
    );
}

#[tokio::test]
async fn agent_that_accepts_no_images_gets_a_note_about_them() {
    let harness = Harness::empty().await;
    let shown = harness.gateway.image(PNG);
    harness.begin(fake(""), false, Some("say yes"), |begin| begin.images = vec![shown.clone()]);
    let notice = harness.event("notice images_left_out").await;
    assert!(notice["summary"].as_str().unwrap().ends_with("the agent does not accept images"), "{notice}");
    let said = harness.event("assistant_message").await;
    let text = said["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("yes") && text.contains("You cannot receive it."), "{text}");
    harness.gateway.sees("turn_completed").await;
    let id = harness.gateway.send(message_with("say no", vec![shown; 2], MessagePriority::Queued));
    harness.gateway.acknowledged(id, "injected").await;
    harness.gateway.sees_nth("notice images_left_out", 2).await;
    harness.gateway.sees("assistant_message text no").await;
}
