//! Opening a session: created, with a slot or in line for one, in one transaction (ruling 20). Who starts a session by hand
//! stands on this, and so does what starts one by itself.

use http::StatusCode;
use pilothouse_domain::conversation::{Conversation, NewMessage};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::NewSession;
use pilothouse_domain::template::SessionOrder;
use pilothouse_domain::{
    AgentSession, AgentSessionId, AgentTemplate, Events, IdSource as _, Occasion, UserId,
};
use pilothouse_store::{Commit, CommitError, Loaded, LoadedConversation, Store};
use serde::Serialize;
use serde_json::Value;

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
    pub new: NewSession,
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
        let new = order
            .resolve(id, owner.clone(), template)
            .map_err(|wrong| Problem::invalid("budgetCapUsd", wrong))?;
        Ok(Plan { new, message: None, events: Events::new() })
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
        let Plan { new, message, mut events } = plan;
        let shape = |it: &mut Conversation, _: &mut SessionPool, cx: &mut Occasion<'_>| {
            if let Some(message) = message {
                events.extend(it.enqueue(message, cx)?);
            }
            Ok(events)
        };
        self.prepare_session(owner, cause, new, shape).await
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
            if let Some(answer) = call.earlier_answer(&self.store).await? {
                return Ok(self.with_key(answer));
            }
            let cause = Cause::Owner { function: call.function.to_owned() };
            let Opening { loaded, pool, waits, mut commit } =
                self.prepare_plan(&call.owner, cause, plan.clone()).await?;
            let session = &loaded.conversation.session;
            let started = StartedSession {
                session: SessionView::of(session),
                api_key: String::new(),
                pool: waits.then(|| PoolView::of(&pool.value, pool.version + 1)),
            };
            let status = if waits { StatusCode::ACCEPTED } else { StatusCode::CREATED };
            let answer = Answer::new(status, Some(session.control_version()), &show(started)?)?;
            call.keep_answer(&mut commit, &answer, self)?;
            match self.store.commit(commit).await {
                Ok(()) => return Ok(self.with_key(answer)),
                Err(CommitError::Conflict | CommitError::AnswerExists) => {
                    tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(Problem::VersionConflict)
    }

    /// The key is derived, never stored, so that a replayed answer can show it again (ruling 8).
    pub(crate) fn with_key(&self, mut answer: Answer) -> Answer {
        let id = answer.body.pointer("/session/id").and_then(Value::as_str).and_then(|id| id.parse().ok());
        if let (Some(id), Some(object)) = (id, answer.body.as_object_mut()) {
            object.insert("apiKey".to_owned(), Value::String(self.secret.api_key(id, 0)));
        }
        answer
    }
}
