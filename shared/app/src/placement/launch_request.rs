use std::collections::BTreeMap;

use pilothouse_domain::{AgentSession, ProjectAgent};
use pilothouse_store::{Store, StoreError};
use pilothouse_wire::launch::LaunchRequest;

/// The labels of a session that select a worker: those that begin with `worker/`.
pub(super) fn worker_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("worker/")?.to_owned(), value.clone())))
        .collect()
}

/// The launch of the session's run, with the requirements and secrets of its agent's current brief. `None` if the session has no run.
pub async fn launch_request(
    store: &Store,
    session: &AgentSession,
) -> Result<Option<LaunchRequest>, StoreError> {
    let Some(run) = session.run() else { return Ok(None) };
    let membership = session.project();
    let agent = match membership {
        Some(of) => store.aggregate::<ProjectAgent>(session.owner_id(), of.agent_id).await?,
        None => None,
    };
    let brief = agent.as_ref().map(|agent| agent.value.brief());
    Ok(Some(LaunchRequest {
        session_id: session.id(),
        run_id: run.id,
        ordinal: run.ordinal,
        retry_count: session.retry_count(),
        adapter: session.settings().adapter.as_str().to_owned(),
        working_directory: session.working_directory().as_str().to_owned(),
        worker_labels: worker_labels(&session.settings().labels),
        lease_ms: run.lease_ms,
        authorize_tools: membership.is_some(),
        agent: membership.cloned(),
        secrets: brief.map(|brief| brief.secret_refs.clone()).unwrap_or_default(),
        workspace: brief.and_then(|brief| brief.workspace_requirements.clone()).map(Box::new),
    }))
}
