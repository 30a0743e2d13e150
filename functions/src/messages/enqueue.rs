//! `POST /api/agents/sessions/{id}/messages/queue`: says something to an agent (S0 8.7 `EnqueueSessionMessageCommand`).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::conversation::NewMessage;
use pilothouse_domain::queue::{QueueError, SessionMessage};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::{MessagePriority, MessageSource};
use pilothouse_domain::{AgentSessionId, IdSource, MessageId, TurnId};
use schemars::JsonSchema;

use crate::api::messages::EnqueuedMessage;
use crate::app::{App, FreshIds};
use crate::change::{Answer, Call, message_hash};
use crate::edge::input::{Body, Said, Violations, maybe_by_serde, maybe_parsed};
use crate::edge::{Problem, Session};

/// A message for an agent.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Enqueue {
    /// What it says.
    #[deserr(try_from(String) = MessageContent::try_from -> pilothouse_domain::text::InvalidText)]
    pub content: MessageContent,
    /// `Immediate`: into the running turn. `Queued` (the default): after it, one a turn.
    #[deserr(default, try_from(Option<serde_json::Value>) = maybe_by_serde -> Said)]
    pub priority: Option<MessagePriority>,
    /// Its id, chosen by the sender: sent again, it is answered and not said again (ruling 28).
    #[deserr(default, try_from(Option<String>) = maybe_parsed -> pilothouse_domain::InvalidId)]
    pub message_id: Option<MessageId>,
    /// The turn that it is meant for; 409 `turn-over` when that is over (ruling 30).
    #[deserr(default, try_from(Option<String>) = maybe_parsed -> pilothouse_domain::InvalidId)]
    pub expected_turn_id: Option<TurnId>,
}

/// 201 with the message; it is sent when its turn comes (ruling 29).
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Enqueue>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let input = body.input;
    if let Some(message_id) = input.message_id {
        app.session_of(&call.owner, id).await?;
        if let Some(answer) = sent_before(&app, id, message_id, &input).await? {
            return Ok(answer);
        }
    }
    let message_id = input.message_id.unwrap_or_else(|| MessageId::new(FreshIds.fresh()));
    let enqueued = app
        .change(
            &call,
            id,
            |it, cx| {
                let new = NewMessage {
                    message_id,
                    content: input.content.clone(),
                    priority: input.priority.unwrap_or(MessagePriority::Queued),
                    source: MessageSource::User,
                    expected_turn_id: input.expected_turn_id.clone(),
                };
                Ok(it.enqueue(new, cx)?)
            },
            |it| {
                let closed = || it.closed_messages.iter().find(|m| m.message_id == message_id);
                match it.queue.get(message_id).or_else(closed) {
                    Some(message) => created(message),
                    None => Err(Problem::internal("an enqueued message is not in its queue")),
                }
            },
        )
        .await;
    match enqueued {
        // The same message, sent twice at once: the first one counts.
        Err(Problem::IdempotencyMismatch | Problem::Queue(QueueError::IdempotencyMismatch))
            if input.message_id.is_some() =>
        {
            sent_before(&app, id, message_id, &input).await?.ok_or(Problem::IdempotencyMismatch)
        }
        other => other,
    }
}

fn created(message: &SessionMessage) -> Result<Answer, Problem> {
    Answer::new(StatusCode::CREATED, None, &EnqueuedMessage { message: message.clone() })
}

/// The answer for a message that was sent before under this id, as it stands now; a refusal when it was another one. One
/// that waited when the session's context was full stands with the session that goes on (ruling 30).
async fn sent_before(
    app: &App,
    id: AgentSessionId,
    message: MessageId,
    input: &Enqueue,
) -> Result<Option<Answer>, Problem> {
    let priority = input.priority.unwrap_or(MessagePriority::Queued);
    // By what was sent, not by what became of it: it may have been edited or promoted since.
    let same = match app.store.sent_message(id, message).await? {
        Some(sent) => sent.hash == message_hash(&input.content, priority, input.expected_turn_id.as_ref()),
        // It may have come with the work of an earlier session, and be delivered by now.
        None => match app.store.closed_message(id, message).await? {
            Some(closed) => closed.content == input.content,
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
