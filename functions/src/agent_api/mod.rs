//! The agent API: functions that an agent calls with the API key of its session (S0 8.9, decision 8).

pub mod artifacts;
pub mod consolidation;
pub mod handoff;
pub mod knowledge;
pub mod learning;
pub mod log;
pub mod memory_pill;
pub mod output;
mod skills;
pub mod task;

use axum::extract::State;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_app::texts;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_app::{App, trace};
use pilothouse_domain::agent_api::{self, AgentItem};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::{AgentSession, AgentSessionStatus};
use pilothouse_domain::value::{ActivityItem, ActivityItemType, ProjectMembership};
use pilothouse_domain::{AgentSessionId, DomainContext, Events, RunId, Timestamp, UserId};
use pilothouse_store::{Commit, JournalView, LoadedConversation};
use serde_json::Value;

/// Loads the caller's own session. Fails unless the key belongs to a session with a live run (decision 8).
async fn caller_session(app: &App, caller: &AgentCaller) -> Result<LoadedConversation, Problem> {
    const REFUSED: Problem = Problem::Unauthenticated("the API key is not valid for a running session");
    let admits = |session: &AgentSession| {
        // An agent whose context is full may still call the API until its process ends.
        let last_words = session.status() == AgentSessionStatus::ContextExhausted && session.run().is_some();
        caller.is_known_by(session.api_key_hash()) && (session.is_live() || last_words)
    };
    let loaded = app.store.conversation_if(caller.session, admits).await?.ok_or(REFUSED)?;
    caller.authenticated()?;
    Ok(loaded)
}

async fn change(
    state: State<App>,
    caller: &AgentCaller,
    path_session: AgentSessionId,
    activity: AgentActivity,
    decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
    show: impl Fn(&Conversation) -> Result<CommandResponse, Problem>,
) -> Result<CommandResponse, Problem> {
    change_with_events(state, caller, path_session, activity, decide, |it, _| show(it)).await
}

/// Like [`change`], but `show` also receives the events.
async fn change_with_events(
    state: State<App>,
    caller: &AgentCaller,
    path_session: AgentSessionId,
    activity: AgentActivity,
    mut decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
    show: impl Fn(&Conversation, &Events) -> Result<CommandResponse, Problem>,
) -> Result<CommandResponse, Problem> {
    let decide = |it: &mut Conversation, (), ctx: &mut DomainContext<'_>| decide(it, ctx);
    change_with(state, caller, path_session, activity, async |_| Ok(()), decide, show).await
}

/// Like [`change_with_events`], but `decide` also receives what `load` returns.
///
/// The key must belong to a session with a live run (decision 8). Any other session in the path is answered with 404. A
/// successful call counts against [`agent_api::AGENT_API_RATE_LIMIT`] and adds a line to the activity stream. A refused call
/// and a call that an idempotency record answers do neither. The table stores the count, so the limit holds across all
/// servers and functions.
async fn change_with<S, F: Future<Output = Result<S, Problem>>>(
    State(app): State<App>,
    caller: &AgentCaller,
    path_session: AgentSessionId,
    activity: AgentActivity,
    load: impl Fn(CallerContext) -> F,
    mut decide: impl FnMut(&mut Conversation, S, &mut DomainContext<'_>) -> Result<Events, Problem>,
    show: impl Fn(&Conversation, &Events) -> Result<CommandResponse, Problem>,
) -> Result<CommandResponse, Problem> {
    let call = AgentCall {
        app: &app,
        caller,
        path_session,
        function: activity.function,
        request: &activity.request_hash,
    };
    let decide = |mut loaded: LoadedConversation, more: S, ctx: &mut DomainContext<'_>| {
        let events = decide(&mut loaded.conversation, more, ctx)?;
        let events = app.with_consequences(&mut loaded.conversation, events, ctx);
        let response = show(&loaded.conversation, &events)?;
        let line = ActivityItem::new(ActivityItemType::Message, &activity.summary, ctx.now);
        let cause = Cause::AgentApi { function: activity.function.to_owned(), body: activity.body.clone() };
        let id = ctx.event_id();
        let mut commit = Commit::new();
        for left in items_of(&loaded.conversation, &events, ctx.now) {
            commit.agent_item(&left)?;
        }
        app.record_beside(&mut commit, &loaded, &events)?;
        let mut entry =
            texts::record(&mut loaded.conversation.session, id, ctx.now, cause, events, vec![line]);
        entry.traceparent = trace::here();
        commit.entry(&entry, activity.view.as_ref())?;
        commit.conversation(&loaded, &app.deadlines)?;
        Ok(Decision::Commit(commit, response))
    };
    call.run(load, decide).await
}

struct AgentCall<'a> {
    app: &'a App,
    caller: &'a AgentCaller,
    path_session: AgentSessionId,
    function: &'static str,
    request: &'a str,
}

impl AgentCall<'_> {
    /// Runs the call as one unit of work. `load` loads what the decision needs in addition to the session of the caller.
    async fn run<S, F: Future<Output = Result<S, Problem>>>(
        self,
        load: impl Fn(CallerContext) -> F,
        mut decide: impl FnMut(
            LoadedConversation,
            S,
            &mut DomainContext<'_>,
        ) -> Result<Decision<CommandResponse>, Problem>,
    ) -> Result<CommandResponse, Problem> {
        let Self { app, caller, .. } = self;
        // The first attempt uses the session that authenticates the caller.
        let session = caller_session(app, caller).await?;
        if self.path_session != caller.session {
            return Err(Problem::no_session());
        }
        let owner = session.conversation.session.owner_id().clone();
        let command = CommandContext::for_agent(owner, self.function, caller, self.request);
        let mut session = Some(session);
        let load = &load;
        let load = || {
            let first = session.take();
            async move {
                let loaded = match first {
                    Some(loaded) => loaded,
                    None => caller_session(app, caller).await?,
                };
                let mut calls = app.store.calls(caller.session).await?;
                calls.value = calls.value.take(agent_api::AGENT_API_RATE_LIMIT, app.now())?;
                let context = CallerContext::of(&loaded.conversation.session);
                Ok((loaded, calls, load(context).await?))
            }
        };
        let decide = |(loaded, calls, more), ctx: &mut DomainContext<'_>| {
            let mut decision = decide(loaded, more, ctx)?;
            if let Decision::Commit(commit, _) = &mut decision {
                commit.calls(caller.session, &calls)?;
            }
            Ok(decision)
        };
        app.unit_of_work().run_command(&command, load, decide).await
    }
}

/// The owner, project and run of the calling session.
struct CallerContext {
    owner: UserId,
    project: Option<ProjectMembership>,
    run: Option<RunId>,
}

impl CallerContext {
    fn of(session: &AgentSession) -> Self {
        Self {
            owner: session.owner_id().clone(),
            project: session.project().cloned(),
            run: session.run().map(|run| run.id),
        }
    }

    /// Fails with 404 outside of projects.
    fn membership(&self) -> Result<&ProjectMembership, Problem> {
        self.project.as_ref().ok_or_else(Problem::no_project)
    }
}

fn items_of(conversation: &Conversation, events: &Events, now: Timestamp) -> Vec<AgentItem> {
    let session = &conversation.session;
    events.iter().filter_map(|event| AgentItem::of(event, session.id(), session.owner_id(), now)).collect()
}

/// A call of an agent, as the journal records it.
struct AgentActivity {
    function: &'static str,
    /// SHA-256 of the body. The idempotency record stores it.
    request_hash: String,
    summary: String,
    body: Value,
    view: Option<JournalView>,
}
