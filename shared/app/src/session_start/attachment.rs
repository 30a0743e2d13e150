//! Starts with `chainId` (S0 8.7): the new session joins a chain of the owner whose current session has ended, and shares the
//! chain's budget (decision 33).

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{ChainEvent, DomainContext, Events, SessionChain, SessionChainId, UserId};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation};

use crate::App;
use crate::problem::Problem;

pub(super) struct Attachment {
    chain: LoadedAggregate<SessionChain>,
    current: LoadedConversation,
    of_chain: Vec<ChainEvent>,
    of_current: Events,
}

impl Attachment {
    /// An unknown chain is a violation of `chainId`.
    pub(super) async fn load(app: &App, owner: &UserId, id: SessionChainId) -> Result<Self, Problem> {
        let missing = || Problem::invalid("chainId", "there is no such chain");
        let chain = app.store.aggregate::<SessionChain>(owner, id).await?.ok_or_else(missing)?;
        let current = app.store.conversation(chain.value.current_session_id()).await?.ok_or_else(missing)?;
        Ok(Self { chain, current, of_chain: Vec::new(), of_current: Events::new() })
    }

    pub(super) fn admit(
        &mut self,
        new: &mut Conversation,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, Problem> {
        let admitted = self.chain.value.admit(new, &mut self.current.conversation, ctx)?;
        let budget = new.session.budget();
        if budget.exhausted() {
            let spent = budget.carried_usd();
            let message = format!("must be more than the {spent} dollars that the chain has spent");
            return Err(Problem::invalid("budgetCapUsd", message));
        }
        (self.of_chain, self.of_current) = (admitted.of_chain, admitted.of_current);
        Ok(admitted.of_new)
    }

    pub(super) fn record(mut self, app: &App, commit: &mut Commit, cause: &Cause) -> Result<(), Problem> {
        app.record_aggregate(commit, &self.chain, cause.clone(), self.of_chain)?;
        app.record(commit, &mut self.current, cause.clone(), self.of_current)
    }
}
