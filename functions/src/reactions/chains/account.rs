//! The account of a chain (decision 33): the spend of earlier sessions counts against the budget, even if it is reported late.

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::{DomainContext, SessionChain, Usd};
use pilothouse_store::{Commit, LoadedConversation};

use super::cause;

/// The current session of a chain, with the spend that it has to carry.
pub(super) struct LateSpend {
    /// The total spend of all sessions of the chain before the current one.
    carried: Usd,
    current: LoadedConversation,
}

impl LateSpend {
    pub(super) async fn load(app: &App, chain: &SessionChain) -> Result<Option<Self>, Problem> {
        let carried = carried(app, chain).await?;
        let current = app.store.conversation(chain.current_session_id()).await?;
        Ok(current.map(|current| Self { carried, current }))
    }
}

/// The total spend of all sessions of a chain before its current one.
async fn carried(app: &App, chain: &SessionChain) -> Result<Usd, Problem> {
    let mut sum = Usd::ZERO;
    for chained in chain.sessions().filter(|chained| chained.session_id != chain.current_session_id()) {
        if let Some(session) = app.store.session(chained.session_id).await? {
            sum += session.metrics().usage.total_cost_usd();
        }
    }
    Ok(sum)
}

/// Charges late spend to the current session. It sets the whole sum, so nothing counts twice. Spend that is reported during the
/// read has a separate event.
pub(super) fn count(
    app: &App,
    state: LateSpend,
    ctx: &mut DomainContext<'_>,
) -> Result<Option<Commit>, Problem> {
    let LateSpend { carried, mut current } = state;
    let events = current.conversation.session.carry_spend(carried);
    if events.is_empty() {
        return Ok(None);
    }
    let events = app.with_consequences(&mut current.conversation, events, ctx);
    let mut commit = Commit::new();
    app.record(&mut commit, &mut current, cause("count-late-spend"), events)?;
    Ok(Some(commit))
}
