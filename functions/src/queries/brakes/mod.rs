//! Queries on emergency brakes (S2 "Emergency Brake", decision 72).

pub mod get;
pub mod list;

use std::collections::BTreeSet;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::{AgentSession, AgentSessionId};

/// Loads the current state of the sessions of a brake.
pub(crate) async fn sessions_of(
    app: &App,
    ids: &BTreeSet<AgentSessionId>,
) -> Result<Vec<AgentSession>, Problem> {
    let mut sessions = Vec::with_capacity(ids.len());
    for id in ids {
        sessions.extend(app.store.session(*id).await?);
    }
    Ok(sessions)
}
