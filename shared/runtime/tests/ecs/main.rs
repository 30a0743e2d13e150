//! Tests of the ECS runtime with recorded responses and with a local cloud.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cloud;
mod responses;

use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::EcsSettings;
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::LaunchRequest;
use uuid::Uuid;

fn secret() -> RootSecret {
    RootSecret::new("k1", vec![7; 32]).unwrap()
}

fn settings(cluster: &str, task_definition: &str) -> EcsSettings {
    EcsSettings {
        cluster: cluster.into(),
        task_definition: task_definition.into(),
        subnets: vec!["subnet-1".into()],
        security_groups: vec!["sg-1".into()],
        public_addresses: false,
        durable_workspace: false,
        lease: std::time::Duration::from_mins(1),
    }
}

fn launch() -> LaunchRequest {
    LaunchRequest {
        session_id: AgentSessionId::new(Uuid::now_v7()),
        run_id: RunId::new(Uuid::now_v7()),
        ordinal: 1,
        retry_count: 0,
        adapter: "script".into(),
        working_directory: "/work".into(),
        worker_labels: std::collections::BTreeMap::new(),
        lease_ms: None,
        authorize_tools: false,
        agent: None,
        secrets: Vec::new(),
        workspace: None,
    }
}
