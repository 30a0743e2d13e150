//! Queries on chains of sessions (S0 8.7, 8.9; decisions 33 to 35).

pub mod get;
pub mod list;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::{AgentSession, SessionChain};

/// Loads the current state of the sessions of a chain.
pub(crate) async fn sessions_of(app: &App, chain: &SessionChain) -> Result<Vec<AgentSession>, Problem> {
    let mut sessions = Vec::with_capacity(chain.len());
    for chained in chain.sessions() {
        sessions.extend(app.store.session(chained.session_id).await?);
    }
    Ok(sessions)
}
