//! Changes a session by one unit of work.
//!
//! Every command uses this module. The function provides the domain call; this module handles what all commands share: ownership,
//! `If-Match`, `Idempotency-Key`, the consequences of the change and the journal entry.

mod context;
mod response;
mod run;

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::{MessageImage, MessagePriority};
use pilothouse_domain::{AgentSessionId, DomainContext, Events, SessionChain, SessionEvent, TurnId, UserId};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation, SentMessage};
use pilothouse_wire::keys::sha256_hex;

pub use self::context::CommandContext;
pub use self::response::CommandResponse;
use crate::problem::Problem;
use crate::unit_of_work::Decision;
use crate::{App, FreshIds};
use crate::{texts, trace};

/// The hash that distinguishes messages with the same id (decision 28).
pub fn message_hash(
    content: &MessageContent,
    images: &[MessageImage],
    priority: MessagePriority,
    expected_turn: Option<&TurnId>,
) -> String {
    let mut text = format!("{priority}\n{}\n{content}", expected_turn.map_or("", TurnId::as_str));
    for image in images {
        // A text has no such character.
        text.extend(["\0", &image.media_type.to_string(), " ", image.sha256.as_str()]);
    }
    sha256_hex(text.as_bytes())
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
        let load = async || self.load_session(command, id).await;
        let decide = |loaded: LoadedConversation, ctx: &mut DomainContext<'_>| {
            self.decide_on_session(command, loaded, ctx, &mut decide, &show)
        };
        self.unit_of_work().run_command(command, load, decide).await
    }

    /// Fails with [`Problem::NotFound`] when the session does not exist or belongs to another owner.
    pub async fn load_session(
        &self,
        command: &CommandContext,
        id: AgentSessionId,
    ) -> Result<LoadedConversation, Problem> {
        let loaded = self.store.conversation_of(&command.owner, id).await?;
        loaded.ok_or_else(Problem::no_session)
    }

    /// Decides on a loaded session by one domain call, after the check of `If-Match`.
    pub fn decide_on_session(
        &self,
        command: &CommandContext,
        mut loaded: LoadedConversation,
        ctx: &mut DomainContext<'_>,
        decide: impl FnOnce(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
        show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
    ) -> Result<Decision<CommandResponse>, Problem> {
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
    }

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
            let hash = message_hash(
                &message.content,
                &message.images,
                message.priority,
                message.expected_turn_id.as_ref(),
            );
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
        message_hash(&content, &[], MessagePriority::Queued, None),
        "c50c2257dd91c1dbbe017905bca965a0adae3a93df8b08672b474606ebbfccff"
    );
    assert_eq!(
        message_hash(&content, &[], MessagePriority::Immediate, turn.as_ref()),
        "adf5694386a77d510df553013ff7384cdbb8f78bdcc5e54a2ffece40a5abb8df"
    );
}
