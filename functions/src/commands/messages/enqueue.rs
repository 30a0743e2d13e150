//! `POST /api/agents/sessions/{id}/messages/queue`: enqueues a message for the agent (S0 8.7 `EnqueueSessionMessageCommand`).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::{ImageInput, Violations};
use pilothouse_api::messages::EnqueuedMessage;
use pilothouse_app::command::{CommandContext, CommandResponse, message_hash};
use pilothouse_app::function::requirements::COMMAND_WITH_IMAGES;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Problem, Session};
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::conversation::NewMessage;
use pilothouse_domain::queue::{QueueError, SessionMessage};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::{MessageImage, MessagePriority, MessageSource};
use pilothouse_domain::{AgentSessionId, IdSource, MessageId, TurnId};
use schemars::JsonSchema;

use crate::images::{self, BodyWithImages};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("messages-enqueue", Verb::Post, "/api/agents/sessions/{id}/messages/queue", |verb| {
        verb.route(enqueue_message)
    })
    .owner()
    .summary("Send a message to an agent")
    .input::<Enqueue>()
    .output::<EnqueuedMessage>(&[201])
    .requires(COMMAND_WITH_IMAGES);

/// A message for the agent of a session.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Enqueue {
    /// The text of the message.
    pub content: MessageContent,
    /// The images of the message: at most 8. An agent that cannot receive images gets only the text. Default: none.
    #[deserr(default)]
    #[schemars(default, length(max = 8))]
    pub images: Vec<ImageInput>,
    /// `Immediate` delivers the message during the running turn. `Queued` (the default) delivers one message per turn, after
    /// the running turn.
    #[deserr(default)]
    pub priority: Option<MessagePriority>,
    /// An id that the caller chooses. A repeated request with the same id is answered but not delivered again (decision 28).
    #[deserr(default)]
    pub message_id: Option<MessageId>,
    /// The turn that the message is meant for. The response is 409 `turn-over` when this turn is over (decision 30).
    #[deserr(default)]
    pub expected_turn_id: Option<TurnId>,
}

/// Responds with 201 and the message. The queue delivers it according to its priority (decision 29). A message that a guardrail of the
/// agent's brief blocks is refused with 409 `guardrail-blocked`.
async fn enqueue_message(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: BodyWithImages<Enqueue>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let input = &body.input;
    let received = images::received(&input.images)?;
    let images = images::references(&received, id);
    if input.message_id.is_some() || !images.is_empty() {
        app.session_of(&command.owner, id).await?;
    }
    if let Some(message_id) = input.message_id
        && let Some(response) = sent_before(&app, id, message_id, input, &images).await?
    {
        return Ok(response);
    }
    let message_id = input.message_id.unwrap_or_else(|| MessageId::new(FreshIds.fresh()));
    let enqueued = app
        .send_to_agent(
            &command,
            id,
            |it, guardrails, ctx| {
                let new = NewMessage {
                    message_id,
                    content: input.content.clone(),
                    images: images.clone(),
                    priority: input.priority.unwrap_or(MessagePriority::Queued),
                    source: MessageSource::User,
                    expected_turn_id: input.expected_turn_id.clone(),
                };
                Ok(it.enqueue_guarded(new, guardrails, ctx)?)
            },
            |it| {
                let closed = || it.closed_messages.iter().find(|m| m.message_id == message_id);
                match it.queue.get(message_id).or_else(closed) {
                    Some(message) => created(message),
                    None => Err(Problem::internal("the enqueued message is not in the queue")),
                }
            },
            async || images::store(&app, &received, id).await,
        )
        .await;
    match enqueued {
        // The same message was sent twice at once. The first request counts.
        Err(Problem::IdempotencyMismatch | Problem::Queue(QueueError::IdempotencyMismatch))
            if input.message_id.is_some() =>
        {
            sent_before(&app, id, message_id, input, &images).await?.ok_or(Problem::IdempotencyMismatch)
        }
        other => other,
    }
}

fn created(message: &SessionMessage) -> Result<CommandResponse, Problem> {
    CommandResponse::new(StatusCode::CREATED, None, &EnqueuedMessage { message: message.clone() })
}

/// Returns the current state of a message that was sent before with this id. Fails when that message was a different one. A
/// message that was pending when the session's context became full is in the queue of the continuation (decision 30).
async fn sent_before(
    app: &App,
    id: AgentSessionId,
    message: MessageId,
    input: &Enqueue,
    images: &[MessageImage],
) -> Result<Option<CommandResponse>, Problem> {
    let priority = input.priority.unwrap_or(MessagePriority::Queued);
    // Compares the original request, because the message may have been edited or promoted since.
    let same = match app.store.sent_message(id, message).await? {
        Some(sent) => {
            sent.hash == message_hash(&input.content, images, priority, input.expected_turn_id.as_ref())
        }
        // The message may come from an earlier session of the chain and be delivered already.
        None => match app.store.closed_message(id, message).await? {
            Some(closed) => closed.content == input.content && MessageImage::are_same(&closed.images, images),
            None => return Ok(None),
        },
    };
    if !same {
        return Err(Problem::IdempotencyMismatch);
    }
    let mut at = Some(id);
    while let Some(session) = at {
        let Some(loaded) = app.store.conversation(session).await? else { break };
        let stands = match loaded.conversation.queue.get(message).cloned() {
            Some(open) => Some(open),
            None => app.store.closed_message(session, message).await?,
        };
        if let Some(message) = stands {
            return created(&message).map(Some);
        }
        at = loaded.conversation.session.continuation();
    }
    Ok(None)
}
