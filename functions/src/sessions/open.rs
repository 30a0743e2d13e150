//! Opening a session: created, with a slot or in line for one, in one transaction (ruling 20). Who starts a session by hand
//! stands on this, and so does what starts one by itself.

use http::StatusCode;
use pilothouse_domain::conversation::{Conversation, NewMessage};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::NewSession;
use pilothouse_domain::template::{OrderedSession, SessionOrder};
use pilothouse_domain::{
    AgentSession, AgentSessionId, AgentTemplate, Events, IdSource as _, Occasion, SessionChainId, UserId,
};
use pilothouse_store::{Commit, CommitError, Loaded, LoadedConversation, Store};
use serde::Serialize;

use super::attach::Attachment;
use super::start::show_key;
use crate::api::pool::PoolView;
use crate::api::sessions::{SessionView, StartedSession};
use crate::app::{App, FreshIds};
use crate::change::{Answer, Call};
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

/// A session that is to be opened, with what goes into the same commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The session.
    pub session: OrderedSession,
    /// The chain of the owner's that it goes on with (S0 8.7).
    pub chain: Option<SessionChainId>,
    /// What it hears first, beside its objective.
    pub message: Option<NewMessage>,
    /// What its journal says of where it comes from.
    pub events: Events,
}

/// Races that a start runs again.
const TRIES: u32 = 64;

impl App {
    /// What a start says, resolved with its template as it is now.
    ///
    /// # Errors
    /// [`Problem::Invalid`] when the budget cannot be.
    pub(crate) async fn plan_session(
        &self,
        owner: &UserId,
        mut order: SessionOrder,
        template: Option<&AgentTemplate>,
    ) -> Result<Plan, Problem> {
        if let (None, Some(template)) = (&order.skill_ids, template) {
            order.skill_ids = Some(self.active_skills(owner, template.default_skill_ids()).await?);
        }
        let id = AgentSessionId::new(FreshIds.fresh());
        let session = order
            .resolve(id, owner.clone(), template)
            .map_err(|wrong| Problem::invalid("budgetCapUsd", wrong))?;
        Ok(Plan { session, chain: None, message: None, events: Events::new() })
    }

    /// Prepares what is planned: see [`App::prepare_session`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn prepare_plan(
        &self,
        owner: &UserId,
        cause: Cause,
        plan: Plan,
    ) -> Result<Opening, Problem> {
        let Plan { session: OrderedSession { new, skill_ids, execution_mode }, chain, message, mut events } =
            plan;
        let mut attachment = match chain {
            Some(chain) => Some(Attachment::load(self, owner, chain).await?),
            None => None,
        };
        let shape = |it: &mut Conversation, _: &mut SessionPool, cx: &mut Occasion<'_>| {
            it.session.equip(&skill_ids)?;
            it.session.runs_as(execution_mode);
            if let Some(attachment) = &mut attachment {
                events.extend(attachment.admit(it, cx)?);
            }
            if let Some(message) = message {
                events.extend(it.enqueue(message, cx)?);
            }
            Ok(events)
        };
        let mut opening = self.prepare_session(owner, cause.clone(), new, shape).await?;
        if let Some(attachment) = attachment {
            attachment.record(self, &mut opening.commit, &cause)?;
        }
        Ok(opening)
    }

    /// Opens a session for its owner: 201 with a slot; 202, Queued, without. `show` may put the answer into a larger one.
    ///
    /// # Errors
    /// What `show` refuses; [`Problem::Pool`] when too many wait already.
    pub(crate) async fn open_for_owner<V: Serialize>(
        &self,
        call: &Call,
        plan: &Plan,
        show: impl Fn(StartedSession) -> Result<V, Problem>,
    ) -> Result<Answer, Problem> {
        for attempt in 0..TRIES {
            if let Some(mut answer) = call.earlier_answer(&self.store).await? {
                show_key(self, &mut answer);
                return Ok(answer);
            }
            let cause = Cause::Owner { function: call.function.to_owned() };
            let mut opening = self.prepare_plan(&call.owner, cause, plan.clone()).await?;
            let mut answer = opening.answer(&show(opening.view())?)?;
            call.keep_answer(&mut opening.commit, &answer, self)?;
            match self.store.commit(opening.commit).await {
                Ok(()) => {
                    show_key(self, &mut answer);
                    return Ok(answer);
                }
                Err(CommitError::Conflict | CommitError::AnswerExists) => {
                    tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(Problem::VersionConflict)
    }
}

impl Opening {
    /// What its owner is shown. The key is shown last, and is not stored with the answer.
    pub(crate) fn view(&self) -> StartedSession {
        StartedSession {
            session: SessionView::of(&self.loaded.conversation.session),
            api_key: String::new(),
            pool: self.waits.then(|| PoolView::of(&self.pool.value, self.pool.version + 1)),
        }
    }

    /// 201 with a slot; 202, Queued, without.
    pub(crate) fn answer<V: Serialize>(&self, view: &V) -> Result<Answer, Problem> {
        let status = if self.waits { StatusCode::ACCEPTED } else { StatusCode::CREATED };
        Answer::new(status, Some(self.loaded.conversation.session.control_version()), view)
    }
}
