//! The conversation.

use pilothouse_api::records::MessageView;
use pilothouse_domain::Timestamp;
use pilothouse_domain::value::AgentMessageSource;

use super::style::{Paint, Style};
use super::text::{indented, line};
use super::time;

/// A message: sender and time, and the text below.
pub fn message(message: &MessageView, style: Style, now: Timestamp) -> String {
    let (who, paint) = match message.source {
        AgentMessageSource::User => ("You", Paint::Bold),
        AgentMessageSource::Agent => ("Agent", Paint::Cyan),
        AgentMessageSource::SubAgent => ("Subagent", Paint::Cyan),
        AgentMessageSource::System => ("Pilothouse", Paint::Yellow),
        AgentMessageSource::Webhook => ("Webhook", Paint::Yellow),
        AgentMessageSource::ContextInjection => ("Context", Paint::Dim),
    };
    let subagent =
        message.sub_agent_id.as_ref().map(|id| format!(" {}", line(id.as_str(), 40))).unwrap_or_default();
    let thinks = if message.thinking { " thinks" } else { "" };
    let head = format!("{}{}", style.paint(paint, &format!("{who}{subagent}")), style.dim(thinks));
    let mut out = format!("{head} {}\n", style.dim(&time::ago(message.timestamp, now)));
    let body = indented(&message.content, "  ");
    out.push_str(&if message.thinking { style.dim(&body) } else { body });
    for image in &message.images {
        let (kind, bytes) = (image.media_type, image.size_bytes);
        out.push_str(&style.dim(&format!("  [{kind}, {bytes} bytes: {}]\n", image.sha256.as_str())));
    }
    if message.truncated {
        let whole = message.blob.as_deref().map(|blob| format!("; full text at {blob}")).unwrap_or_default();
        out.push_str(&style.dim(&format!("  … truncated{whole}\n")));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::message;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn message_shows_which_images_it_has() {
        let image = json!({ "mediaType": "image/png", "sha256": "a".repeat(64), "sizeBytes": 68,
            "sessionId": "0197b1c0-0000-7000-8000-000000000001" });
        let view = serde_json::from_value(json!({
            "id": "j1", "source": "User", "content": "look", "images": [image], "thinking": false, "truncated": false,
            "timestamp": "2026-11-21T20:01:50.000Z",
        }))
        .unwrap();
        let shown = format!("You 10 s ago\n  look\n  [image/png, 68 bytes: {}]\n", "a".repeat(64));
        assert_eq!(message(&view, Style::PLAIN, now()), shown);
    }

    #[test]
    fn message_shows_its_sender_and_truncation() {
        let view = serde_json::from_value(json!({
            "id": "j1", "source": "SubAgent", "subAgentId": "a1", "content": "one\ntwo \u{1b}[31m", "thinking": false,
            "truncated": true, "blob": "blobs/x", "timestamp": "2026-11-21T20:01:50.000Z",
        }))
        .unwrap();
        assert_eq!(
            message(&view, Style::PLAIN, now()),
            "Subagent a1 10 s ago\n  one\n  two [31m\n  … truncated; full text at blobs/x\n"
        );
    }
}
