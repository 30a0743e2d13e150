use std::collections::BTreeMap;

use pilothouse_domain::AgentSession;
use pilothouse_wire::launch::LaunchRequest;

/// The labels that a session requires of its worker: those that begin with `worker/`.
fn worker_labels(session: &AgentSession) -> BTreeMap<String, String> {
    let labels = session.settings().labels.iter();
    labels
        .filter_map(|(name, value)| Some((name.strip_prefix("worker/")?.to_owned(), value.clone())))
        .collect()
}

pub fn launch_request(session: &AgentSession) -> Option<LaunchRequest> {
    let run = session.run()?;
    Some(LaunchRequest {
        session_id: session.id(),
        run_id: run.id,
        ordinal: run.ordinal,
        retry_count: session.retry_count(),
        adapter: session.settings().adapter.as_str().to_owned(),
        working_directory: session.working_directory().as_str().to_owned(),
        worker_labels: worker_labels(session),
        lease_ms: run.lease_ms,
        authorize_tools: session.project().is_some(),
    })
}
