//! Reactions to events of chains and their sessions (S0 8.10, decisions 30, 33 to 35): an exhausted session gets a continuation,
//! late documents and late spend reach the current session, closing a session completes its chain, and cancelling a chain cancels
//! its sessions.
//!
//! Each reaction decides on the current state and commits under the versions that it read, so that it may run twice, late or
//! concurrently.

mod account;
mod documents;
mod ending;
mod handing_over;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_domain::chain::SessionChainStatus;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::session::{AgentSessionStatus, WorkStop};
use pilothouse_domain::{AgentSessionId, ChainEvent, DomainContext, SessionChain, SessionEvent};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation};

use self::account::LateSpend;
use self::documents::LateDocument;
use self::handing_over::HandoverState;

/// Whether an event of a session has a reaction for its chain.
pub(super) const fn concerns(event: &SessionEvent) -> bool {
    use SessionEvent as E;
    matches!(
        event,
        E::ContextExhausted { .. }
            | E::VoluntaryHandoff { .. }
            | E::HandoffDocumentRecorded { .. }
            | E::RunEnded { status: AgentSessionStatus::ContextExhausted, .. }
            | E::WorkStopped { reason: WorkStop::Killed, .. }
            | E::LateSpend { .. }
            | E::Closed {}
            | E::Approved { .. }
    )
}

pub(super) const fn concerns_of_chain(event: &ChainEvent) -> bool {
    match event {
        ChainEvent::Cancelled { .. } => true,
        ChainEvent::Created { .. }
        | ChainEvent::HandoffInitiated { .. }
        | ChainEvent::SessionAdded { .. }
        | ChainEvent::Completed { .. } => false,
    }
}

pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    if !concerns(event) {
        return Ok(());
    }
    let load = async || match Member::load(app, entry.session_id).await? {
        Some(member) => StepState::load(app, member, event).await,
        None => Ok(None),
    };
    let decide = |state: Option<StepState>, ctx: &mut DomainContext<'_>| {
        let commit = match state {
            Some(state) => state.decide(app, ctx)?,
            None => None,
        };
        Ok(commit.into())
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

pub(super) async fn react_of_chain(app: &App, event: &ChainEvent) -> Result<(), Problem> {
    let ChainEvent::Cancelled { chain_id } = event else { return Ok(()) };
    let Some(chain) = app.store.any_aggregate::<SessionChain>(*chain_id).await? else { return Ok(()) };
    for chained in chain.value.sessions() {
        ending::cancel(app, chained.session_id).await?;
    }
    ending::end_decision(app, *chain_id).await
}

struct Member {
    loaded: LoadedConversation,
    chain: LoadedAggregate<SessionChain>,
}

impl Member {
    async fn load(app: &App, id: AgentSessionId) -> Result<Option<Self>, Problem> {
        let Some(loaded) = app.store.conversation(id).await? else { return Ok(None) };
        let Some(chain_id) = loaded.conversation.session.chain_id() else { return Ok(None) };
        let chain = app.store.any_aggregate::<SessionChain>(chain_id).await?;
        Ok(chain.map(|chain| Self { loaded, chain }))
    }

    fn id(&self) -> AgentSessionId {
        self.loaded.conversation.session.id()
    }

    fn is_current(&self) -> bool {
        self.chain.value.current_session_id() == self.id()
    }
}

/// The next step after an event of a session, with everything that its decision depends on.
enum StepState {
    CountLateSpend(LateSpend),
    CompleteChain(Member),
    HandOver(Box<HandoverState>),
    RecordDocument(Member),
    SendLateDocument(LateDocument),
    CancelMessages(Member),
    CancelChainOfKilled(Member),
}

impl StepState {
    async fn load(app: &App, member: Member, event: &SessionEvent) -> Result<Option<Self>, Problem> {
        use SessionEvent as E;
        match event {
            E::LateSpend { .. } => {
                Ok(LateSpend::load(app, &member.chain.value).await?.map(Self::CountLateSpend))
            }
            E::Closed {} | E::Approved { .. } => Ok(Some(Self::CompleteChain(member))),
            _ => Self::load_exhausted(app, member).await,
        }
    }

    /// The next step of a session with an exhausted context.
    async fn load_exhausted(app: &App, member: Member) -> Result<Option<Self>, Problem> {
        let session = &member.loaded.conversation.session;
        if session.status() != AgentSessionStatus::ContextExhausted {
            return Ok(None);
        }
        if member.chain.value.waits_for_continuation(session) {
            return Ok(Some(Self::HandOver(Box::new(HandoverState::load(app, member).await?))));
        }
        if !member.is_current() {
            return Ok(LateDocument::load(app, member).await?.map(Self::SendLateDocument));
        }
        Ok(Some(match member.chain.value.status() {
            SessionChainStatus::Active if session.work_stop() == Some(WorkStop::Killed) => {
                Self::CancelChainOfKilled(member)
            }
            SessionChainStatus::Active => Self::RecordDocument(member),
            SessionChainStatus::Completed | SessionChainStatus::Cancelled => Self::CancelMessages(member),
        }))
    }

    /// The commit of the step; `None` if nothing changes.
    fn decide(self, app: &App, ctx: &mut DomainContext<'_>) -> Result<Option<Commit>, Problem> {
        match self {
            Self::CountLateSpend(state) => account::count(app, state, ctx),
            Self::CompleteChain(member) => ending::complete(app, member, ctx),
            Self::HandOver(state) => handing_over::hand_over(app, *state, ctx),
            Self::RecordDocument(member) => documents::record_document(app, member),
            Self::SendLateDocument(state) => documents::deliver_late_document(app, state, ctx),
            Self::CancelMessages(member) => ending::abandon(app, member),
            Self::CancelChainOfKilled(member) => ending::cancel_chain_of_killed(app, member, ctx),
        }
    }
}

fn cause(function: &str) -> Cause {
    Cause::Reaction { function: function.to_owned() }
}
