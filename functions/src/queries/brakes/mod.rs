//! Queries on emergency brakes (S2 "Emergency Brake", decision 72).

pub mod get;
pub mod list;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::{AgentSession, AgentSessionId};

/// The most sessions that are read at the same time.
const CONCURRENT_READS: usize = 16;

/// Loads the current state of the sessions of a brake.
pub(crate) async fn sessions_of(
    app: &App,
    ids: &BTreeSet<AgentSessionId>,
) -> Result<Vec<Arc<AgentSession>>, Problem> {
    let ids: Vec<_> = ids.iter().copied().collect();
    let mut sessions = Vec::with_capacity(ids.len());
    for some in ids.chunks(CONCURRENT_READS) {
        let loaded = try_join_all(some.iter().map(|id| app.store.shared_session(*id))).await?;
        sessions.extend(loaded.into_iter().flatten());
    }
    Ok(sessions)
}
