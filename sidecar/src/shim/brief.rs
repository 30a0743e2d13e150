//! The `AgentBrief` of S2. It contains neither trust nor an escalation protocol, which agents must not read.

use pilothouse_domain::AgentSessionId;
use pilothouse_wire::command::AgentSessionConfig;
use serde_json::{Map, Value, json};

use crate::own_tools::{McpServerConfig, SERVER_NAME};

/// `description` is the text of the turn.
pub(super) fn brief(
    session: AgentSessionId,
    config: &AgentSessionConfig,
    description: &str,
    provider_config: &Map<String, Value>,
    own_tools: &McpServerConfig,
) -> Value {
    let own = json!({ "name": SERVER_NAME, "command": own_tools.command, "args": own_tools.args });
    let mut seen = std::collections::BTreeSet::new();
    let others = config.custom_tools.iter().map(|tool| tool.server_uri.as_str());
    let others = others.filter(|uri| seen.insert(*uri)).map(|uri| json!({ "url": uri }));
    let servers: Vec<Value> = std::iter::once(own).chain(others).collect();
    let mut brief = json!({
        "agentId": session,
        "role": "agent",
        "description": description,
        // An addition: the instructions of template, skills and project.
        "instructions": config.composed_system_prompt,
        "workstream": "",
        "readableWorkstreams": [],
        "constraints": [],
        "projectBrief": {},
        "knowledgeSnapshot": {},
        "allowedTools": config.allowed_tools,
        "mcpServers": servers,
        "workspaceRequirements": {
            "mounts": [{ "hostPath": ".", "sandboxPath": config.working_directory, "readOnly": false }],
            "capabilities": ["terminal"],
        },
        "sessionPolicy": config.policies.session_policy.map_or_else(|| json!({ "historyPolicy": "full" }), |policy| json!(policy)),
        "providerConfig": provider_config,
    });
    if let Some(policy) = &config.policies.delegation_policy {
        brief["delegationPolicy"] = json!(policy);
    }
    if !["", "default"].contains(&config.model_id.as_str()) {
        brief["modelPreference"] = Value::String(config.model_id.clone());
    }
    brief
}
