//! A chain has one account (ruling 33): what sessions before the current one spent counts, also when it is told late.

use pilothouse_domain::{SessionChain, Usd};
use pilothouse_store::Commit;

use super::cause;
use crate::app::{App, FreshIds};
use crate::edge::Problem;

/// What every session of a chain before its current one spent, as it stands now.
async fn carried(app: &App, chain: &SessionChain) -> Result<Usd, Problem> {
    let mut sum = Usd::ZERO;
    for chained in chain.sessions().filter(|chained| chained.session_id != chain.current_session_id()) {
        if let Some(session) = app.store.session(chained.session_id).await? {
            sum += session.metrics().total_cost_usd;
        }
    }
    Ok(sum)
}

/// Counts late spend on the current session. It is the whole sum, so that nothing counts twice; what comes while this
/// reads has an event of its own.
pub(super) async fn count(app: &App, chain: &SessionChain) -> Result<Option<Commit>, Problem> {
    let carried = carried(app, chain).await?;
    let Some(mut current) = app.store.conversation(chain.current_session_id()).await? else {
        return Ok(None);
    };
    let events = current.conversation.session.carry_spend(carried);
    if events.is_empty() {
        return Ok(None);
    }
    let mut ids = FreshIds;
    let events = app.follow(&mut current.conversation, events, &mut app.occasion(&mut ids));
    let mut commit = Commit::new();
    app.record(&mut commit, &mut current, cause("count-late-spend"), events)?;
    Ok(Some(commit))
}
