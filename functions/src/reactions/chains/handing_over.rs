//! The continuation of an exhausted session. One transaction creates it, adds it to the chain, and transfers the queued messages
//! and the slot (decisions 21, 30, 34).

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::journal_views;
use pilothouse_domain::chain::ChainError;
use pilothouse_domain::decision::FreeDecision;
use pilothouse_domain::project_agent::AgentBrief;
use pilothouse_domain::session::WorkStop;
use pilothouse_domain::value::HandoffDocument;
use pilothouse_domain::{AgentSession, DomainContext, Events, ProjectAgent, SessionChain};
use pilothouse_store::{Commit, Loaded, LoadedAggregate, LoadedConversation, LoadedPool, WorkerKey};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;

use super::{Member, cause};

/// The most messages of the agent that a synthesized document quotes.
const LAST_WORDS: usize = 5;
/// The journal entries that are searched for these messages.
const LOOKED_AT: usize = 30;

const FUNCTION: &str = "hand-over";

/// A session whose run ended, with everything that its continuation takes over.
pub(super) struct HandoverState {
    member: Member,
    /// The last messages of the agent, oldest first. Empty if the agent wrote a document.
    last_messages: Vec<String>,
    pool: LoadedPool,
    /// The worker that has the folders of the session.
    home: Option<WorkerKey>,
    /// The agent of a project whose work is continued.
    agent: Option<LoadedAggregate<ProjectAgent>>,
    /// Whether the inbox has the decision about the chain, because it is full.
    is_asked: bool,
}

impl HandoverState {
    pub(super) async fn load(app: &App, member: Member) -> Result<Self, Problem> {
        let session = &member.loaded.conversation.session;
        let last_messages = match session.handoff_document() {
            Some(_) => Vec::new(),
            None => last_messages(app, session).await?,
        };
        let pool = app.store.pool(session.owner_id()).await?;
        let home = app.store.session_worker(session.id()).await?;
        let agent = match session.project() {
            Some(membership) => app.store.aggregate(session.owner_id(), membership.agent_id).await?,
            None => None,
        };
        let chain = &member.chain.value;
        let is_asked = chain.len() >= SessionChain::MAX_SESSIONS && {
            let id = FreeDecision::failed_handoff_of(chain.id());
            app.store.decision_of(chain.owner_id(), id).await?.is_some()
        };
        Ok(Self { member, last_messages, pool, home, agent, is_asked })
    }
}

/// Hands the work of a session whose run ended to a new session.
pub(super) fn hand_over(
    app: &App,
    state: HandoverState,
    ctx: &mut DomainContext<'_>,
) -> Result<Option<Commit>, Problem> {
    let HandoverState {
        member: Member { loaded: mut from, mut chain },
        last_messages,
        mut pool,
        home,
        agent,
        is_asked,
    } = state;
    let owner = from.conversation.session.owner_id().clone();
    let mut of_predecessor = synthesize(&mut from.conversation.session, &last_messages, ctx);
    let Some(document) = from.conversation.session.handoff_document().cloned() else {
        return Err(Problem::internal("a handoff without a document"));
    };
    let handed = match chain.value.hand_over(&mut from.conversation, &document, ctx) {
        Ok(handed) => handed,
        Err(full @ ChainError::Full { .. }) => {
            tracing::warn!(chain = %chain.value.id(), %full, "the chain is full; the work is not handed over");
            return if is_asked {
                Ok(None)
            } else {
                ask(app, from, of_predecessor, &chain.value, &full, ctx)
            };
        }
        Err(other) => return Err(other.into()),
    };
    of_predecessor.extend(handed.of_predecessor);
    let mut to = LoadedConversation::new(handed.continuation);
    if let Some(agent) = &agent {
        follow_brief(&mut to.conversation.session, agent.value.brief());
    }
    let mut of_continuation = app.with_consequences(&mut to.conversation, handed.of_continuation, ctx);
    let before = from.conversation.session.id();
    let (_, allocated) = pool.value.transfer(before, &mut to.conversation.session, ctx)?;
    of_continuation.extend(allocated);

    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &chain, cause(FUNCTION), handed.of_chain)?;
    app.record(&mut commit, &mut from, cause(FUNCTION), of_predecessor)?;
    app.record(&mut commit, &mut to, cause(FUNCTION), of_continuation)?;
    commit.pool(&owner, &pool)?;
    if let Some(worker) = home {
        // The continuation needs the directory on that worker (decision 23).
        commit.record_session_worker(to.conversation.session.id(), &worker)?;
    }
    if let Some(mut agent) = agent {
        let of_agent = agent.value.continue_in(to.conversation.session.id(), ctx);
        app.record_aggregate(&mut commit, &agent, cause(FUNCTION), of_agent)?;
    }
    Ok(Some(commit))
}

/// The next session of an agent is driven by the adapter that its brief names now.
fn follow_brief(session: &mut AgentSession, brief: &AgentBrief) {
    if let Some(adapter) = brief.adapter.as_ref().filter(|adapter| **adapter != session.settings().adapter) {
        session.use_adapter(adapter.clone(), brief.provider_config.clone());
    }
}

/// Leaves it to a person what becomes of a chain that is full.
fn ask(
    app: &App,
    mut from: LoadedConversation,
    mut events: Events,
    chain: &SessionChain,
    full: &ChainError,
    ctx: &DomainContext<'_>,
) -> Result<Option<Commit>, Problem> {
    let session = &mut from.conversation.session;
    let decision = FreeDecision::handoff_failed(session, chain.id(), full, ctx.now);
    events.extend(session.stop_work(chain.id(), WorkStop::ChainFull));
    let mut commit = Commit::new();
    commit.free_decision(&Loaded::new(decision))?;
    app.record(&mut commit, &mut from, cause(FUNCTION), events)?;
    Ok(Some(commit))
}

/// Builds a document from the records if the agent wrote none (decision 34).
fn synthesize(session: &mut AgentSession, last_messages: &[String], ctx: &mut DomainContext<'_>) -> Events {
    if session.handoff_document().is_some() {
        return Events::new();
    }
    let document = HandoffDocument::synthesized(session.handoff_source(last_messages));
    session.record_handoff(document, ctx)
}

/// Oldest first.
async fn last_messages(app: &App, session: &AgentSession) -> Result<Vec<String>, Problem> {
    let entries = app.store.last_messages(session.id(), LOOKED_AT).await?;
    let said = entries.iter().filter_map(journal_views::raw_event).filter_map(|event| match event {
        RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } => {
            Some(text.text().into_owned())
        }
        _ => None,
    });
    let mut words: Vec<_> = said.filter(|text| !text.trim().is_empty()).take(LAST_WORDS).collect();
    words.reverse();
    Ok(words)
}
