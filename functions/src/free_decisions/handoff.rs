//! A chain whose work cannot be handed over, because it is full: its owner cancels it or keeps it.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::decision::{ChainOutcome, Resolution};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{DomainContext, SessionChain, SessionChainId};
use pilothouse_store::{Commit, LoadedAggregate};

#[derive(Debug, Clone)]
pub(super) struct HandoffState {
    chain: LoadedAggregate<SessionChain>,
}

impl HandoffState {
    pub(super) async fn load(app: &App, id: SessionChainId) -> Result<Self, Problem> {
        let chain = app.store.any_aggregate::<SessionChain>(id).await?;
        let chain = chain.ok_or_else(|| Problem::internal("the chain of a decision is missing"))?;
        Ok(Self { chain })
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
            Some(ChainOutcome::Keep) => Ok(()),
            None => Err(Problem::internal(format!("{chosen_option_id} is no outcome of a chain"))),
        }
    }
}
