//! Where a session has run.

use std::path::Path;

use pilothouse_domain::AgentSessionId;

/// Whether a session has its folder in this data folder: the worker has prepared a run of it (decision 23).
pub fn has_session_folder(data: &Path, session: AgentSessionId) -> bool {
    data.join("sessions").join(session.to_string()).exists()
}
