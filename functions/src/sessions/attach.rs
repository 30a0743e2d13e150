//! A start with `chainId` (S0 8.7): the new session takes its place in a chain of the owner's whose current session is
//! over, and spends from the chain's account (ruling 33).

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{Events, Occasion, SessionChain, SessionChainId, UserId};
use pilothouse_store::{Commit, LoadedConversation, LoadedOwned};

use crate::app::App;
use crate::edge::Problem;

/// A chain that a new session is about to be attached to.
pub(super) struct Attachment {
    chain: LoadedOwned<SessionChain>,
    current: LoadedConversation,
    of_chain: Events,
    of_current: Events,
}

impl Attachment {
    /// The chain with its current session; 422 where the owner has no such chain.
    pub(super) async fn load(app: &App, owner: &UserId, id: SessionChainId) -> Result<Self, Problem> {
        let missing = || Problem::invalid("chainId", "there is no such chain");
        let chain = app.store.owned::<SessionChain>(owner, id).await?.ok_or_else(missing)?;
        let current = app.store.conversation(chain.value.current_session_id()).await?.ok_or_else(missing)?;
        Ok(Self { chain, current, of_chain: Events::new(), of_current: Events::new() })
    }

    /// Gives the new session its place.
    pub(super) fn admit(&mut self, new: &mut Conversation, cx: &mut Occasion<'_>) -> Result<Events, Problem> {
        let admitted = self.chain.value.admit(new, &mut self.current.conversation, cx)?;
        let budget = new.session.budget();
        if budget.exhausted() {
            let spent = budget.carried_usd();
            let message = format!("must be more than the {spent} dollars that the chain has spent");
            return Err(Problem::invalid("budgetCapUsd", message));
        }
        (self.of_chain, self.of_current) = (admitted.of_chain, admitted.of_current);
        Ok(admitted.of_new)
    }

    /// Puts chain and former session into the commit of the new one.
    pub(super) fn record(mut self, app: &App, commit: &mut Commit, cause: &Cause) -> Result<(), Problem> {
        app.record_owned(commit, &self.chain, cause.clone(), self.of_chain)?;
        app.record(commit, &mut self.current, cause.clone(), self.of_current)
    }
}
