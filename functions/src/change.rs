//! Changing a session: load, decide, commit under the loaded versions, and again if another change came first.
//!
//! This is what every command stands on. The function gives the one domain call; here is what is the same for all:
//! ownership, `If-Match`, `Idempotency-Key`, what follows from the change, the journal entry, the bounded retry.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{AgentSessionId, DomainEvent, Events, Occasion, SessionChain, TurnId, UserId};
use pilothouse_store::{
    Commit, CommitError, LoadedConversation, LoadedOwned, SentMessage, Store, StoredAnswer,
};
use pilothouse_wire::keys::sha256_hex;
use serde::Serialize;
use serde_json::Value;

use crate::api::sessions::SessionView;
use crate::app::{App, FreshIds, METRICS};
use crate::catalogue::FunctionName;
use crate::edge::auth::Owner;
use crate::edge::{AgentCaller, IfMatch, Problem, RequestId};
use crate::trace;

/// How often a lost race is run again before the caller is told.
const TRIES: u32 = 12;
/// The same for an owner's stop, which never loses (ruling 16).
const TRIES_OF_A_STOP: u32 = 400;

/// A call of a command by an owner: who, which function, and under which conditions.
#[derive(Debug, Clone)]
pub struct Call {
    /// Who.
    pub owner: UserId,
    /// The function.
    pub function: &'static str,
    if_match: IfMatch,
    key_hash: Option<String>,
    request: String,
    stop: bool,
}

impl FromRequestParts<App> for Call {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Owner(owner) = Owner::from_request_parts(parts, app).await?;
        let function = parts.extensions.get::<FunctionName>().map_or("unknown", |name| name.0);
        Ok(Self {
            owner,
            function,
            if_match: IfMatch::from_request_parts(parts, app).await?,
            key_hash: RequestId::from_request_parts(parts, app).await?.key_hash,
            request: format!("{function} {}", parts.uri.path()),
            stop: false,
        })
    }
}

impl Call {
    /// A call by the agent of a session of `owner`. Its idempotency keys are not its owner's.
    pub(crate) fn of_agent(
        owner: UserId,
        function: &'static str,
        caller: &AgentCaller,
        body_hash: &str,
    ) -> Self {
        let session = caller.session;
        Self {
            owner,
            function,
            if_match: IfMatch(None),
            key_hash: caller
                .idempotency_key
                .as_ref()
                .map(|key| sha256_hex(format!("agent {session} {key}").as_bytes())),
            request: format!("{function} {session} {body_hash}"),
            stop: false,
        }
    }

    /// The call with its body: an idempotency key remembers it.
    #[must_use]
    pub fn with_body(mut self, hash: &str) -> Self {
        self.request = format!("{} {hash}", self.request);
        self
    }

    /// The call as an owner's stop, which retries until it wins (ruling 16).
    #[must_use]
    pub const fn as_stop(mut self) -> Self {
        self.stop = true;
        self
    }

    /// Refuses when `If-Match` names another version.
    pub fn check(&self, version: u64) -> Result<(), Problem> {
        self.if_match.check(version)
    }

    /// Whether the request can be repeated with the same answer.
    pub(crate) const fn has_key(&self) -> bool {
        self.key_hash.is_some()
    }

    fn request_hash(&self) -> String {
        sha256_hex(self.request.as_bytes())
    }

    /// The answer of an earlier request with the same key; a refusal when that request was another one.
    pub async fn earlier_answer(&self, store: &Store) -> Result<Option<Answer>, Problem> {
        let Some(key) = &self.key_hash else { return Ok(None) };
        match store.answer(&self.owner, key).await? {
            None => Ok(None),
            Some(stored) if stored.request_hash == self.request_hash() => Ok(Some(Answer::replayed(stored))),
            Some(_) => Err(Problem::IdempotencyMismatch),
        }
    }

    /// Puts the answer into the commit, so that it stands if and only if the change does.
    pub fn keep_answer(&self, commit: &mut Commit, answer: &Answer, app: &App) -> Result<(), Problem> {
        if let Some(key) = &self.key_hash {
            commit.answer(&self.owner, key, &answer.stored(self), app.now())?;
        }
        Ok(())
    }
}

/// What a function answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The version, as an `ETag`.
    pub version: Option<u64>,
    /// The body.
    pub body: Value,
    replayed: bool,
}

impl Answer {
    /// An answer with a body.
    pub fn new<T: Serialize>(status: StatusCode, version: Option<u64>, body: &T) -> Result<Self, Problem> {
        Ok(Self {
            status,
            version,
            body: serde_json::to_value(body).map_err(Problem::internal)?,
            replayed: false,
        })
    }

    /// 200 with a body and a version.
    pub fn ok<T: Serialize>(version: u64, body: &T) -> Result<Self, Problem> {
        Self::new(StatusCode::OK, Some(version), body)
    }

    /// A session after a command: 202 while a sidecar has yet to act, 200 otherwise.
    pub fn session(conversation: &Conversation) -> Result<Self, Problem> {
        let session = &conversation.session;
        let under_way = session.status().is_intermediate()
            || session.cancel_accepted()
            || session.reload().is_some()
            || session.adjustments().next().is_some();
        let status = if under_way { StatusCode::ACCEPTED } else { StatusCode::OK };
        Self::new(status, Some(session.control_version()), &SessionView::of(session))
    }

    fn stored(&self, call: &Call) -> StoredAnswer {
        let mut body = self.body.clone();
        // Secrets are derived again, never stored (ruling 8).
        if let Some(object) = body.as_object_mut() {
            object.remove("apiKey");
        }
        StoredAnswer {
            function: call.function.to_owned(),
            request_hash: call.request_hash(),
            status: self.status.as_u16(),
            etag: self.version.map(|v| v.to_string()),
            body,
        }
    }

    fn replayed(stored: StoredAnswer) -> Self {
        Self {
            status: StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK),
            version: stored.etag.and_then(|v| v.parse().ok()),
            body: stored.body,
            replayed: true,
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if let Some(tag) = self.version.and_then(|v| HeaderValue::from_str(&format!("\"{v}\"")).ok()) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        if self.replayed {
            response
                .headers_mut()
                .insert(HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
        }
        response
    }
}

/// What tells one message from another under the same id (ruling 28).
pub fn message_hash(
    content: &MessageContent,
    priority: MessagePriority,
    expected_turn: Option<&TurnId>,
) -> String {
    sha256_hex(format!("{priority:?}\n{}\n{content}", expected_turn.map_or("", TurnId::as_str)).as_bytes())
}

impl App {
    /// A session of `owner`, for reading. Another owner's is not there.
    pub async fn session_of(
        &self,
        owner: &UserId,
        id: AgentSessionId,
    ) -> Result<pilothouse_domain::AgentSession, Problem> {
        self.store
            .session(id)
            .await?
            .filter(|session| session.owner_id() == owner)
            .ok_or_else(Problem::no_session)
    }

    /// Changes a session by one domain call and answers with the session.
    pub async fn command(
        &self,
        call: &Call,
        id: AgentSessionId,
        decide: impl FnMut(&mut Conversation, &mut Occasion<'_>) -> Result<Events, Problem>,
    ) -> Result<Answer, Problem> {
        self.change(call, id, decide, Answer::session).await
    }

    /// Changes a session by one domain call and answers with what `show` makes of it.
    pub async fn change(
        &self,
        call: &Call,
        id: AgentSessionId,
        mut decide: impl FnMut(&mut Conversation, &mut Occasion<'_>) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<Answer, Problem>,
    ) -> Result<Answer, Problem> {
        if let Some(answer) = call.earlier_answer(&self.store).await? {
            return Ok(answer);
        }
        let tries = if call.stop { TRIES_OF_A_STOP } else { TRIES };
        for attempt in 0..tries {
            let mut loaded = self.store.conversation(id).await?.ok_or_else(Problem::no_session)?;
            if *loaded.conversation.session.owner_id() != call.owner {
                return Err(Problem::no_session());
            }
            let cause = Cause::Owner { function: call.function.to_owned() };
            let mut ids = FreshIds;
            let mut cx = self.occasion(&mut ids);
            let decided = call.check(loaded.conversation.session.control_version());
            let events = match decided.and_then(|()| decide(&mut loaded.conversation, &mut cx)) {
                Ok(events) => self.follow(&mut loaded.conversation, events, &mut cx),
                // The same request, sent twice at once: the first one may be why this one is refused.
                Err(refusal) => return call.earlier_answer(&self.store).await?.ok_or(refusal),
            };
            let answer = show(&loaded.conversation)?;
            if events.is_empty() && call.key_hash.is_none() {
                return Ok(answer);
            }
            let mut commit = Commit::new();
            self.record(&mut commit, &mut loaded, cause, events)?;
            call.keep_answer(&mut commit, &answer, self)?;
            match self.store.commit(commit).await {
                Ok(()) => {
                    tracing::trace!(target: METRICS, commands = 1_u64);
                    return Ok(answer);
                }
                Err(CommitError::AnswerExists) => {
                    if let Some(answer) = call.earlier_answer(&self.store).await? {
                        return Ok(answer);
                    }
                }
                Err(CommitError::Conflict) => tracing::trace!(target: METRICS, conflicts = 1_u64),
                Err(other) => return Err(other.into()),
            }
            tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
        }
        Err(Problem::VersionConflict)
    }

    /// The events of a change with what follows from it.
    pub fn follow(
        &self,
        conversation: &mut Conversation,
        mut events: Events,
        cx: &mut Occasion<'_>,
    ) -> Events {
        let more = conversation.settle(&events, cx);
        events.extend(more);
        events
    }

    /// Puts a changed conversation into a commit, with one journal entry for `events`, the records of new messages and
    /// the place in the journal.
    pub fn record(
        &self,
        commit: &mut Commit,
        loaded: &mut LoadedConversation,
        cause: Cause,
        events: Events,
    ) -> Result<(), Problem> {
        self.record_entry(commit, loaded, cause, events)?;
        Ok(commit.conversation(loaded, &self.deadlines)?)
    }

    /// Puts one journal entry for `events` into a commit, if there are any. The conversation is put there later.
    pub fn record_entry(
        &self,
        commit: &mut Commit,
        loaded: &mut LoadedConversation,
        cause: Cause,
        events: Events,
    ) -> Result<(), Problem> {
        if events.is_empty() {
            return Ok(());
        }
        self.record_beside(commit, loaded, &events)?;
        let mut ids = FreshIds;
        let mut cx = self.occasion(&mut ids);
        let id = cx.event_id();
        let mut entry =
            JournalEntry::record(&mut loaded.conversation.session, id, cx.now, cause, events, Vec::new());
        entry.traceparent = trace::here();
        Ok(commit.entry(&entry, None)?)
    }

    /// What is written with `events` of a session in the same transaction: the records of new messages, and the chain
    /// that begins with a full context window (ruling 34).
    pub fn record_beside(
        &self,
        commit: &mut Commit,
        loaded: &LoadedConversation,
        events: &Events,
    ) -> Result<(), Problem> {
        record_new_messages(commit, loaded, events)?;
        let begun = SessionChain::begun_by(events, &loaded.conversation.session, self.now());
        let Some((chain, of_chain)) = begun else { return Ok(()) };
        let cause = Cause::Reaction { function: "begin-chain".to_owned() };
        self.record_owned(commit, &LoadedOwned::new(chain), cause, of_chain)
    }
}

/// The records that make sending idempotent by `messageId` (ruling 28).
fn record_new_messages(
    commit: &mut Commit,
    loaded: &LoadedConversation,
    events: &Events,
) -> Result<(), Problem> {
    let conversation = &loaded.conversation;
    for event in events {
        let DomainEvent::MessageEnqueued { message_id, .. } = event else { continue };
        let closed = || conversation.closed_messages.iter().find(|m| m.message_id == *message_id);
        if let Some(message) = conversation.queue.get(*message_id).or_else(closed) {
            let hash = message_hash(&message.content, message.priority, message.expected_turn_id.as_ref());
            commit.new_message(conversation.session.id(), *message_id, &SentMessage { hash })?;
        }
    }
    Ok(())
}
