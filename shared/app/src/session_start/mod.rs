//! Opens a session: creates it with a slot or in the waiting list, in one transaction (decision 20). Manual and automatic starts
//! share this module.

mod attachment;
mod skills;
mod unmetered;

use std::sync::OnceLock;

use http::StatusCode;
use pilothouse_api::pool::PoolUtilization;
use pilothouse_api::sessions::{SessionView, StartedSession};
use pilothouse_domain::conversation::{Conversation, NewMessage};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::Allocation;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::session::NewSession;
use pilothouse_domain::template::{IncompleteSpec, ResolvedSession, SessionSpec};
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::{MessageImage, ProjectMembership};
use pilothouse_domain::{
    AgentSession, AgentSessionId, AgentTemplate, AgentTemplateId, DomainContext, Events, IdSource as _,
    SessionChainId, UserId,
};
use pilothouse_runtime::AtCapacity;
use pilothouse_store::{Commit, LoadedConversation, LoadedPool};
use serde::Serialize;
use serde_json::Value;

use self::attachment::Attachment;
use crate::command::{CommandContext, CommandResponse};
use crate::problem::Problem;
use crate::unit_of_work::Decision;
use crate::{App, FreshIds};

/// The state on which the opening of a planned session depends.
pub struct StartState {
    pool: LoadedPool,
    attachment: Option<Attachment>,
}

/// A session that is ready to be committed.
pub struct Opening {
    pub loaded: LoadedConversation,
    pub pool: LoadedPool,
    pub waits: bool,
    /// The commit with the session, to which the caller may add more.
    pub commit: Commit,
}

impl App {
    /// The template of a start request. An unknown template is a violation of `templateId`.
    ///
    /// # Errors
    /// Also if the template is deactivated.
    pub async fn template_to_start_with(
        &self,
        owner: &UserId,
        id: Option<AgentTemplateId>,
    ) -> Result<Option<AgentTemplate>, Problem> {
        let Some(id) = id else { return Ok(None) };
        let template = self.store.aggregate::<AgentTemplate>(owner, id).await?;
        let template =
            template.ok_or_else(|| Problem::invalid("templateId", "there is no such template"))?.value;
        template.check_usable()?;
        Ok(Some(template))
    }

    /// Prepares a session, with a slot of its owner's `pool` if one is free. `shape` may change the conversation first: set its
    /// skills, or add messages to its queue. Fails with [`Problem::Pool`] when too many sessions wait.
    pub fn prepare_session(
        &self,
        mut pool: LoadedPool,
        cause: Cause,
        new: NewSession,
        ctx: &mut DomainContext<'_>,
        shape: impl FnOnce(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
    ) -> Result<Opening, Problem> {
        let owner = new.owner_id.clone();
        let (session, mut events) = AgentSession::create(new, ctx);
        let mut conversation = Conversation::new(session, SessionMessageQueue::default());
        events.extend(shape(&mut conversation, ctx)?);
        let (allocation, allocated) = pool.value.allocate(&mut conversation.session, ctx)?;
        events.extend(allocated);
        let mut loaded = LoadedConversation::new(conversation);
        let mut commit = Commit::new();
        self.record(&mut commit, &mut loaded, cause, events)?;
        commit.pool(&owner, &pool)?;
        Ok(Opening { loaded, pool, waits: allocation == Allocation::Waits, commit })
    }
}

fn no_adapter() -> Problem {
    Problem::invalid(
        "adapter",
        "is missing, and this server has no default: its first start found no agent. Install Claude Code, or set ANTHROPIC_API_KEY \
         or OPENAI_API_KEY for the native agent, and start the server again; or name an adapter here or with `pilothouse up \
         --default-adapter`",
    )
}

/// A session to open, with everything that belongs to the same commit.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionPlan {
    pub session: ResolvedSession,
    /// The images of the objective.
    pub images: Vec<MessageImage>,
    /// The chain that the session continues (S0 8.7).
    pub chain: Option<SessionChainId>,
    /// The agent of a project that the session belongs to.
    pub project: Option<ProjectMembership>,
    /// The first message, in addition to the objective.
    pub message: Option<NewMessage>,
    /// The events that record the origin of the session.
    pub events: Events,
}

impl App {
    /// `named`, or else the default of this server. Fails with [`Problem::Invalid`] without both.
    pub fn adapter_or_default(&self, named: Option<AdapterName>) -> Result<AdapterName, Problem> {
        named.or_else(|| self.default_adapter.clone()).ok_or_else(no_adapter)
    }

    /// Plans a session. The models that the operator allows apply to it.
    ///
    /// # Errors
    /// [`Problem::Invalid`] if something is missing, and [`Problem::ModelNotAllowed`].
    pub async fn plan_session(
        &self,
        owner: &UserId,
        mut order: SessionSpec,
        template: Option<&AgentTemplate>,
    ) -> Result<SessionPlan, Problem> {
        if let (None, Some(template)) = (&order.skill_ids, template) {
            order.skill_ids = Some(self.active_skills(owner, template.default_skill_ids()).await?);
        }
        let id = AgentSessionId::new(FreshIds.fresh());
        let session = order.resolve(id, owner.clone(), template, self.default_adapter.as_ref()).map_err(
            |incomplete| match incomplete {
                IncompleteSpec::Budget(wrong) => Problem::invalid("budgetCapUsd", wrong),
                IncompleteSpec::Model(wrong) => Problem::ModelNotAllowed(wrong),
                IncompleteSpec::NoAdapter => no_adapter(),
            },
        )?;
        self.allowed_models.check(&session.new.model_id)?;
        self.allowed_models.check_options(&session.new.settings.adapter_options)?;
        Ok(SessionPlan {
            session,
            images: Vec::new(),
            chain: None,
            project: None,
            message: None,
            events: Events::new(),
        })
    }

    /// Fails with [`Problem::Invalid`] when the chain of the plan does not exist.
    pub async fn load_start(&self, plan: &SessionPlan) -> Result<StartState, Problem> {
        let owner = &plan.session.new.owner_id;
        let attachment = match plan.chain {
            Some(chain) => Some(Attachment::load(self, owner, chain).await?),
            None => None,
        };
        Ok(StartState { pool: self.store.pool(owner).await?, attachment })
    }

    /// Like [`App::prepare_session`]. Also fails when the skills, the chain or the message of the plan are refused.
    pub fn prepare_plan(
        &self,
        state: StartState,
        cause: &Cause,
        plan: SessionPlan,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Opening, Problem> {
        let StartState { pool, mut attachment } = state;
        let SessionPlan {
            session: ResolvedSession { new, skill_ids, execution_mode },
            images,
            project,
            message,
            mut events,
            chain: _,
        } = plan;
        let shape = |it: &mut Conversation, ctx: &mut DomainContext<'_>| {
            it.session.set_skills(&skill_ids)?;
            it.session.set_execution_mode(execution_mode);
            it.session.attach_images(images);
            if let Some(membership) = project {
                it.session.join_project(membership);
            }
            if let Some(attachment) = &mut attachment {
                events.extend(attachment.admit(it, ctx)?);
            }
            if let Some(message) = message {
                events.extend(it.enqueue(message, ctx)?);
            }
            Ok(events)
        };
        let mut opening = self.prepare_session(pool, cause.clone(), new, ctx, shape)?;
        if let Some(attachment) = attachment {
            attachment.record(self, &mut opening.commit, cause)?;
        }
        Ok(opening)
    }

    /// Opens a session for its owner. The response is 201 with a slot, or 202 for a Queued session. `show` may embed the session
    /// in a larger response. `store_images` runs before the commit, so that a refused start leaves nothing. Fails with
    /// [`Problem::Pool`] when too many sessions wait, and with [`Problem::AtCapacity`] when it has a slot and there is no room for its
    /// sidecar.
    pub async fn open_for_owner<V: Serialize, B: Future<Output = Result<(), Problem>>>(
        &self,
        command: &CommandContext,
        plan: &SessionPlan,
        show: impl Fn(StartedSession) -> Result<V, Problem>,
        store_images: impl FnMut() -> B,
    ) -> Result<CommandResponse, Problem> {
        let room = StartRoom::default();
        let load = async || self.load_start(plan).await;
        let decide = |state: StartState, ctx: &mut DomainContext<'_>| {
            let opening = self.prepare_plan(state, &command.cause(), plan.clone(), ctx)?;
            room.reserve_for(self, &opening)?;
            let response = opening.response(&show(opening.view())?)?;
            Ok(Decision::Commit(opening.commit, response))
        };
        let mut response =
            self.unit_of_work().run_command_storing(command, load, decide, store_images).await?;
        show_key(self, &mut response);
        Ok(response)
    }
}

/// All attempts of a command share one reservation of room for the sidecar of its session.
#[derive(Debug, Default)]
pub struct StartRoom(OnceLock<Result<(), AtCapacity>>);

impl StartRoom {
    /// Later calls return the result of the first one.
    pub fn reserve(&self, app: &App) -> Result<(), AtCapacity> {
        *self.0.get_or_init(|| app.runtime.admit_start())
    }

    /// Like [`Self::reserve`] if the session has a slot. The sidecar of a waiting session starts later, and its launch checks for room.
    pub fn reserve_for(&self, app: &App, opening: &Opening) -> Result<(), AtCapacity> {
        if opening.waits { Ok(()) } else { self.reserve(app) }
    }
}

impl Opening {
    /// The view for the owner, without the API key, which is added last and never stored with the response.
    pub fn view(&self) -> StartedSession {
        let session = &self.loaded.conversation.session;
        let view = SessionView::of(session);
        let braked = self.waits && self.pool.value.brake_on(session).is_some();
        StartedSession {
            session: if braked { view.braked() } else { view },
            api_key: String::new(),
            pool: self.waits.then(|| PoolUtilization::of(&self.pool.value)),
        }
    }

    pub fn response<V: Serialize>(&self, view: &V) -> Result<CommandResponse, Problem> {
        let status = if self.waits { StatusCode::ACCEPTED } else { StatusCode::CREATED };
        let version = self.loaded.conversation.session.control_version();
        CommandResponse::new(status, Some(version), view)
    }
}

/// Adds the API key to a response. The key is derived, never stored, so that a replayed response can contain it (decision 8).
pub fn show_key(app: &App, response: &mut CommandResponse) {
    let id = response.body.pointer("/session/id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    if let (Some(id), Some(object)) = (id, response.body.as_object_mut()) {
        object.insert("apiKey".to_owned(), Value::String(app.secret.api_key(id, 0)));
    }
}
