//! `PATCH /api/agents/sessions/{id}/messages/queue/{messageId}`: edits or moves a pending message (decision 28).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::messages::QueueView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::request::Message;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::text::MessageContent;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "messages-edit",
    Verb::Patch,
    "/api/agents/sessions/{id}/messages/queue/{messageId}",
    |verb| verb.route(edit_message),
)
.owner()
.summary("Edit or move a pending message")
.input::<Edit>()
.output::<QueueView>(&[200]);

/// The changes to a pending message. At least one field is required.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edit {
    /// The new text.
    #[deserr(default)]
    pub content: Option<MessageContent>,
    /// The new position among the messages of the same priority, counted from 0.
    #[deserr(default)]
    pub position: Option<usize>,
}

/// Responds with 200 and the queue, or with 409: `already-sent` when the message may have reached the agent, `guardrail-blocked` when a
/// guardrail of the agent's brief blocks the new text.
async fn edit_message(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    Message(message): Message,
    body: Body<Edit>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let Edit { content, position } = body.input;
    if content.is_none() && position.is_none() {
        return Err(Problem::invalid("", "name a new `content`, a new `position`, or both"));
    }
    app.change_session_guarded(
        &command,
        id,
        |it, guardrails, _| {
            let mut events = Vec::new();
            if let Some(content) = &content {
                events.extend(it.edit_message(message, content.clone(), guardrails)?);
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
