//! `PATCH /api/agents/sessions/{id}/messages/queue/{messageId}`: edits or moves a pending message (ruling 28).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::text::MessageContent;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, maybe};
use crate::edge::request::Message;
use crate::edge::{Problem, Session};

/// What changes; at least one of both.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edit {
    /// Its new text.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub content: Option<MessageContent>,
    /// Its new place among the messages of its priority, from 0.
    #[deserr(default)]
    pub position: Option<usize>,
}

/// 200 with the queue; 409 `already-sent` when the agent may have it.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    Message(message): Message,
    body: Body<Edit>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let Edit { content, position } = body.input;
    if content.is_none() && position.is_none() {
        return Err(Problem::invalid("", "name a new `content`, a new `position`, or both"));
    }
    app.change(
        &call,
        id,
        |it, _| {
            let mut events = Vec::new();
            if let Some(content) = &content {
                events.extend(it.queue.edit(message, content.clone())?);
            }
            if let Some(position) = position {
                events.extend(it.queue.move_to(message, position)?);
            }
            Ok(events)
        },
        super::queue,
    )
    .await
}
