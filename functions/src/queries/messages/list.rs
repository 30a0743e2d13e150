//! `GET /api/agents/sessions/{id}/messages/queue`: lists the open messages in delivery order (S0 8.7
//! `GetSessionMessageQueueQuery`).

use axum::extract::State;
use pilothouse_api::messages::QueueView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("messages-list", Verb::Get, "/api/agents/sessions/{id}/messages/queue", |verb| {
        verb.route(list_messages)
    })
    .owner()
    .summary("List the message queue in delivery order")
    .output::<QueueView>(&[200]);

/// Responds with 200 and the open messages. Immediate messages come first.
async fn list_messages(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<CommandResponse, Problem> {
    let loaded = app.store.conversation_of(&owner, id).await?.ok_or_else(Problem::no_session)?;
    let conversation = &loaded.conversation;
    let version = conversation.session.control_version();
    CommandResponse::ok(version, &QueueView::of(&conversation.queue, version))
}
