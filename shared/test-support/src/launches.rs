//! Requests to run sidecars.

use std::collections::BTreeMap;

use pilothouse_app::FreshIds;
use pilothouse_domain::{AgentSessionId, IdSource as _, RunId};
use pilothouse_wire::launch::LaunchRequest;

/// A request for the first run of a new session with the script adapter, without requirements. A test replaces the
/// fields that it is about.
pub fn launch_request() -> LaunchRequest {
    LaunchRequest {
        session_id: AgentSessionId::new(FreshIds.fresh()),
        run_id: RunId::new(FreshIds.fresh()),
        ordinal: 1,
        retry_count: 0,
        adapter: "script".to_owned(),
        working_directory: "/tmp".to_owned(),
        worker_labels: BTreeMap::new(),
        lease_ms: None,
        authorize_tools: false,
        agent: None,
        secrets: Vec::new(),
        workspace: None,
    }
}
