//! Refuses caps that cannot be enforced (decision 32).

use pilothouse_domain::AgentSession;
use pilothouse_domain::session::NewSession;

use crate::App;
use crate::problem::Problem;

/// Each start reads this many of the owner's latest sessions, so they are few.
const LATEST: usize = 5;

impl App {
    /// Refuses a session with a cap if the owner's latest session with the same adapter, model and options has shown that its
    /// spend is unknown. Without such a session, the sidecar detects unmetered agents.
    pub async fn refuse_unmetered(&self, new: &NewSession) -> Result<(), Problem> {
        if new.budget.allows_unmetered() {
            return Ok(());
        }
        let latest = self.store.sessions(&new.owner_id, LATEST, None).await?.items;
        let is_same = |session: &&AgentSession| {
            let (settings, requested) = (session.settings(), &new.settings);
            session.model_id() == &new.model_id
                && settings.adapter == requested.adapter
                && settings.adapter_options == requested.adapter_options
        };
        match latest.iter().filter(is_same).find_map(AgentSession::is_unmetered) {
            Some(true) => Err(Problem::UnmeteredStart),
            _ => Ok(()),
        }
    }
}
