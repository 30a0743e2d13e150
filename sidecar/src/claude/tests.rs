//! Helpers for the tests of this adapter.

use pilothouse_domain::session::AgentOptions;
use pilothouse_wire::command::{AgentSessionConfig, BriefPolicies};
use serde_json::Value;

pub(super) fn config(options: Value) -> AgentSessionConfig {
    AgentSessionConfig {
        model_id: "claude-sonnet-4-5".into(),
        thinking_level: None,
        composed_system_prompt: String::new(),
        allowed_tools: vec![],
        custom_tools: vec![],
        sub_agents: vec![],
        working_directory: "/".into(),
        objective: "x".into(),
        options: AgentOptions { context_warn_at_percent: 80, ..AgentOptions::default() },
        policies: BriefPolicies::default(),
        handoff: None,
        adapter_options: options,
    }
}
