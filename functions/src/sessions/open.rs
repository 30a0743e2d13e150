//! Opening a session: created, with a slot or in line for one, in one transaction (ruling 20). Who starts a session by hand
//! stands on this, and so does what starts one by itself.

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::NewSession;
use pilothouse_domain::{AgentSession, Events, Occasion, UserId};
use pilothouse_store::{Commit, Loaded, LoadedConversation};

use crate::app::{App, FreshIds};
use crate::edge::Problem;

/// A session that is about to be committed.
pub struct Opening {
    /// The session with its queue.
    pub loaded: LoadedConversation,
    /// The pool as it will be.
    pub pool: Loaded<SessionPool>,
    /// Whether it has to wait for a slot.
    pub waits: bool,
    /// Everything that is committed together; more may be added.
    pub commit: Commit,
}

impl App {
    /// Prepares a session: created, and with a slot if one is free. Nothing is written until its commit is, with whatever
    /// else is put into that; after a lost race it is prepared again. `shape` may change the conversation first: put it into a chain, say, or move messages into its queue.
    ///
    /// # Errors
    /// What `shape` refuses; [`Problem::Pool`] when too many wait already.
    pub async fn prepare_session(
        &self,
        owner: &UserId,
        cause: Cause,
        new: NewSession,
        shape: impl FnOnce(&mut Conversation, &mut SessionPool, &mut Occasion<'_>) -> Result<Events, Problem>,
    ) -> Result<Opening, Problem> {
        let mut pool = self.store.pool(owner).await?;
        let mut ids = FreshIds;
        let mut cx = self.occasion(&mut ids);
        let (session, mut events) = AgentSession::create(new, &cx);
        let mut conversation = Conversation::new(session, SessionMessageQueue::default());
        events.extend(shape(&mut conversation, &mut pool.value, &mut cx)?);
        let (allocation, allocated) = pool.value.allocate(&mut conversation.session, &mut cx)?;
        events.extend(allocated);
        let mut loaded = LoadedConversation::new(conversation);
        let mut commit = Commit::new();
        self.record(&mut commit, &mut loaded, cause, events)?;
        commit.pool(owner, &pool)?;
        Ok(Opening { loaded, pool, waits: allocation == Allocation::Waits, commit })
    }
}
