//! A chain whose work cannot be handed over, because it is full: its owner cancels it or keeps it.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::decision::{ChainOutcome, Decision, Resolution};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::WorkStop;
use pilothouse_domain::{DomainContext, SessionChain, SessionChainId};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation};

#[derive(Debug, Clone)]
pub(super) struct HandoffState {
    chain: LoadedAggregate<SessionChain>,
    /// The exhausted session; `None` if it was deleted.
    session: Option<LoadedConversation>,
}

impl HandoffState {
    pub(super) async fn load(app: &App, decision: &Decision, id: SessionChainId) -> Result<Self, Problem> {
        let chain = app.store.any_aggregate::<SessionChain>(id).await?;
        let chain = chain.ok_or_else(|| Problem::internal("the chain of a decision is missing"))?;
        let session = match decision.session_id() {
            Some(session) => app.store.conversation(session).await?,
            None => None,
        };
        Ok(Self { chain, session })
    }

    pub(super) fn end_chain(
        mut self,
        app: &App,
        cause: &Cause,
        resolution: &Resolution,
        commit: &mut Commit,
        ctx: &DomainContext<'_>,
    ) -> Result<(), Problem> {
        let Resolution::ChooseOption { chosen_option_id, .. } = resolution else {
            return Err(Problem::internal("the end of a chain without a choice"));
        };
        match ChainOutcome::of_option(chosen_option_id) {
            Some(ChainOutcome::Cancel) => {
                let events = self.chain.value.cancel(ctx.now)?;
                app.record_aggregate(commit, &self.chain, cause.clone(), events)
            }
            Some(ChainOutcome::Keep) => self.keep(app, cause, commit),
            None => Err(Problem::internal(format!("{chosen_option_id} is no outcome of a chain"))),
        }
    }

    /// The agent of a project does not wait for its person any more.
    fn keep(self, app: &App, cause: &Cause, commit: &mut Commit) -> Result<(), Problem> {
        let Some(mut loaded) = self.session else { return Ok(()) };
        let events = loaded.conversation.session.stop_work(self.chain.value.id(), WorkStop::ChainKept);
        app.record(commit, &mut loaded, cause.clone(), events)
    }
}
