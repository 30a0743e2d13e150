//! Changes a session by one unit of work.
//!
//! Every command uses this module. The function provides the domain call; this module handles what all commands share: ownership,
//! `If-Match`, `Idempotency-Key`, the consequences of the change and the journal entry.

use crate::texts;
use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use pilothouse_api::sessions::SessionView;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{AgentSessionId, DomainContext, Events, SessionChain, SessionEvent, TurnId, UserId};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation, SentMessage, Store, StoredResponse};
use pilothouse_wire::keys::sha256_hex;
use serde::Serialize;
use serde_json::Value;

use crate::disk::SERVED_ON_A_FULL_DISK;
use crate::function::FunctionName;
use crate::http::auth::Owner;
use crate::http::{AgentCaller, IfMatch, Problem, RequestId};
use crate::trace;
use crate::unit_of_work::{Decision, RetryPolicy};
use crate::{App, FreshIds};

/// The context of a command: the owner, the function and the preconditions of the request.
#[derive(Debug, Clone)]
pub struct CommandContext {
    /// The owner who sent the command.
    pub owner: UserId,
    /// The name of the function.
    pub function: &'static str,
    if_match: IfMatch,
    key_hash: Option<String>,
    request: String,
    policy: RetryPolicy,
}

impl FromRequestParts<App> for CommandContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Owner(owner) = Owner::from_request_parts(parts, app).await?;
        let function = parts.extensions.get::<FunctionName>().map_or("unknown", |name| name.0);
        if app.disk().is_short() && !SERVED_ON_A_FULL_DISK.contains(&function) {
            return Err(Problem::StorageFull);
        }
        Ok(Self {
            owner,
            function,
            if_match: IfMatch::from_request_parts(parts, app).await?,
            key_hash: RequestId::from_request_parts(parts, app).await?.key_hash,
            request: format!("{function} {}", parts.uri.path()),
            policy: RetryPolicy::COMMAND,
        })
    }
}

impl CommandContext {
    /// The context of a call by the agent of a session of `owner`. Idempotency keys of agents are separate from those of the
    /// owner.
    pub fn for_agent(owner: UserId, function: &'static str, caller: &AgentCaller, body_hash: &str) -> Self {
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
            policy: RetryPolicy::COMMAND,
        }
    }

    /// The context of a stop that the server itself orders for an owner.
    pub const fn for_server(owner: UserId, function: &'static str) -> Self {
        let policy = RetryPolicy::STOP;
        Self { owner, function, if_match: IfMatch(None), key_hash: None, request: String::new(), policy }
    }

    /// Adds the body to the request that an idempotency key identifies.
    #[must_use]
    pub fn with_body(mut self, hash: &str) -> Self {
        self.request = format!("{} {hash}", self.request);
        self
    }

    /// Marks the command as an owner's stop, which retries until it succeeds (decision 16).
    #[must_use]
    pub const fn as_stop(mut self) -> Self {
        self.policy = RetryPolicy::STOP;
        self
    }

    pub(crate) const fn retry_policy(&self) -> RetryPolicy {
        self.policy
    }

    /// The cause of journal entries of this command.
    pub fn cause(&self) -> Cause {
        Cause::Owner { function: self.function.to_owned() }
    }

    /// Returns an error if `If-Match` requires another version.
    pub fn check_version(&self, version: u64) -> Result<(), Problem> {
        self.if_match.check(version)
    }

    /// Whether the request has an idempotency key.
    pub const fn has_idempotency_key(&self) -> bool {
        self.key_hash.is_some()
    }

    fn request_hash(&self) -> String {
        sha256_hex(self.request.as_bytes())
    }

    /// Returns the response to an earlier request with the same key, or an error if that request was different.
    pub async fn earlier_response(&self, store: &Store) -> Result<Option<CommandResponse>, Problem> {
        let Some(key) = &self.key_hash else { return Ok(None) };
        match store.stored_response(&self.owner, key).await? {
            None => Ok(None),
            Some(stored) if stored.request_hash == self.request_hash() => {
                Ok(Some(CommandResponse::replayed(stored)))
            }
            Some(_) => Err(Problem::IdempotencyMismatch),
        }
    }

    /// Adds the response to the commit, so that it is stored if and only if the change is.
    pub(crate) fn store_response(
        &self,
        commit: &mut Commit,
        response: &CommandResponse,
        app: &App,
    ) -> Result<(), Problem> {
        if let Some(key) = &self.key_hash {
            commit.store_response(&self.owner, key, &response.stored(self), app.now())?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct CommandResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The version of the changed object, sent as its `ETag`.
    pub version: Option<u64>,
    pub body: Value,
    replayed: bool,
}

impl CommandResponse {
    /// Creates a response with a body.
    pub fn new<T: Serialize>(status: StatusCode, version: Option<u64>, body: &T) -> Result<Self, Problem> {
        Ok(Self {
            status,
            version,
            body: serde_json::to_value(body).map_err(Problem::internal)?,
            replayed: false,
        })
    }

    /// Creates a response with status 200, a body and a version.
    pub fn ok<T: Serialize>(version: u64, body: &T) -> Result<Self, Problem> {
        Self::new(StatusCode::OK, Some(version), body)
    }

    /// Creates a response with a session: 202 while a sidecar has yet to act, 200 otherwise.
    pub fn session(conversation: &Conversation) -> Result<Self, Problem> {
        let session = &conversation.session;
        let under_way = session.status().is_intermediate()
            || session.cancel_accepted()
            || session.reload().is_some()
            || session.adjustments().next().is_some();
        let status = if under_way { StatusCode::ACCEPTED } else { StatusCode::OK };
        Self::new(status, Some(session.control_version()), &SessionView::of(session))
    }

    fn stored(&self, command: &CommandContext) -> StoredResponse {
        let mut body = self.body.clone();
        // Secrets are never stored; a replay derives them again (decision 8).
        if let Some(object) = body.as_object_mut() {
            object.remove("apiKey");
        }
        StoredResponse {
            function: command.function.to_owned(),
            request_hash: command.request_hash(),
            status: self.status.as_u16(),
            etag: self.version.map(|v| v.to_string()),
            body,
        }
    }

    fn replayed(stored: StoredResponse) -> Self {
        Self {
            status: StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK),
            version: stored.etag.and_then(|v| v.parse().ok()),
            body: stored.body,
            replayed: true,
        }
    }
}

impl IntoResponse for CommandResponse {
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

/// The hash that distinguishes messages with the same id (decision 28).
pub fn message_hash(
    content: &MessageContent,
    priority: MessagePriority,
    expected_turn: Option<&TurnId>,
) -> String {
    sha256_hex(format!("{priority}\n{}\n{content}", expected_turn.map_or("", TurnId::as_str)).as_bytes())
}

impl App {
    /// Loads a session of `owner` for reading. A session of another owner is not found.
    pub async fn session_of(
        &self,
        owner: &UserId,
        id: AgentSessionId,
    ) -> Result<pilothouse_domain::AgentSession, Problem> {
        self.store.session_of(owner, id).await?.ok_or_else(Problem::no_session)
    }

    /// Changes a session by one domain call and responds with the session.
    pub async fn change_session(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
    ) -> Result<CommandResponse, Problem> {
        self.change_session_with(command, id, decide, CommandResponse::session).await
    }

    /// Changes a session by one domain call and responds with the result of `show`.
    pub async fn change_session_with(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
        mut decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let load = async || {
            let loaded = self.store.conversation_of(&command.owner, id).await?;
            loaded.ok_or_else(Problem::no_session)
        };
        let decide = |mut loaded: LoadedConversation, ctx: &mut DomainContext<'_>| {
            command.check_version(loaded.conversation.session.control_version())?;
            let events = decide(&mut loaded.conversation, ctx)?;
            let events = self.with_consequences(&mut loaded.conversation, events, ctx);
            let response = show(&loaded.conversation)?;
            if events.is_empty() {
                return Ok(Decision::Unchanged(response));
            }
            let mut commit = Commit::new();
            self.record(&mut commit, &mut loaded, command.cause(), events)?;
            Ok(Decision::Commit(commit, response))
        };
        self.unit_of_work().run_command(command, load, decide).await
    }

    /// Appends the events that follow from a change.
    pub fn with_consequences(
        &self,
        conversation: &mut Conversation,
        mut events: Events,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let more = conversation.settle(&events, ctx);
        events.extend(more);
        events
    }

    /// Adds a changed conversation to a commit, with one journal entry for `events` and the records of new messages.
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

    /// Adds one journal entry for `events` to a commit, if there are any, without the conversation.
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
        let mut ctx = self.domain_context(&mut ids);
        let id = ctx.event_id();
        let mut entry =
            texts::record(&mut loaded.conversation.session, id, ctx.now, cause, events, Vec::new());
        entry.traceparent = trace::here();
        Ok(commit.entry(&entry, None)?)
    }

    /// Adds what must be committed together with `events` of a session: the records of new messages, and the chain that starts
    /// when the context is exhausted (decision 34).
    pub fn record_beside(
        &self,
        commit: &mut Commit,
        loaded: &LoadedConversation,
        events: &Events,
    ) -> Result<(), Problem> {
        record_new_messages(commit, loaded, events)?;
        let begun = SessionChain::from_handoff(events, &loaded.conversation.session, self.now());
        let Some((chain, of_chain)) = begun else { return Ok(()) };
        let cause = Cause::Reaction { function: "begin-chain".to_owned() };
        self.record_aggregate(commit, &LoadedAggregate::new(chain), cause, of_chain)
    }
}

/// Adds the records that make sending idempotent by `messageId` (decision 28).
fn record_new_messages(
    commit: &mut Commit,
    loaded: &LoadedConversation,
    events: &Events,
) -> Result<(), Problem> {
    let conversation = &loaded.conversation;
    for event in events {
        let SessionEvent::MessageEnqueued { message_id, .. } = event else { continue };
        let closed = || conversation.closed_messages.iter().find(|m| m.message_id == *message_id);
        if let Some(message) = conversation.queue.get(*message_id).or_else(closed) {
            let hash = message_hash(&message.content, message.priority, message.expected_turn_id.as_ref());
            commit.new_message(conversation.session.id(), *message_id, &SentMessage { hash })?;
        }
    }
    Ok(())
}

#[test]
fn hashes_of_stored_messages_stay() {
    let content = MessageContent::parse("hello").unwrap_or_else(|error| unreachable!("{error}"));
    let turn = TurnId::parse("turn-1").ok();
    assert_eq!(
        message_hash(&content, MessagePriority::Queued, None),
        "c50c2257dd91c1dbbe017905bca965a0adae3a93df8b08672b474606ebbfccff"
    );
    assert_eq!(
        message_hash(&content, MessagePriority::Immediate, turn.as_ref()),
        "adf5694386a77d510df553013ff7384cdbb8f78bdcc5e54a2ffece40a5abb8df"
    );
}
