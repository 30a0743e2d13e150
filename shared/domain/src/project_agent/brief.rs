//! What an agent receives (S2 `AgentBrief`).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::artifact_files::ArtifactFiles;
use super::delegation::{DelegationPolicy, DelegationViolation};
use super::mcp::{McpServer, McpServerTool, McpViolation};
use super::provider_config::{ProviderConfigViolation, check_provider_config};
use super::secret::{SecretRef, SecretViolation};
use super::session_policy::{SessionPolicy, SessionPolicyViolation};
use super::workspace::{WorkspaceRequirements, WorkspaceViolation};
use crate::decision::{CrashRecoveryPolicy, DecisionTimeoutPolicy};
use crate::escalation::{
    EscalationProtocol, GuardrailPolicy, GuardrailViolation, InputGuardrail, ProtocolViolation,
    ToolGuardrail, Violations,
};
use crate::injection::{ContextInjectionPolicy, PolicyViolation};
use crate::output::OutputRules;
use crate::output_schema::{OutputSchema, SchemaViolation};
use crate::project::Project;
use crate::text::{
    AdapterName, AgentDescription, AgentRole, BriefConstraint, ModelId, WorkstreamId, is_name,
};
use crate::value::{KnowledgeScope, McpToolDefinition};

/// The brief of an agent.
///
/// The fields that S2 computes (`agentId`, `controlMode`, `projectBrief`) come from the agent and its project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentBrief {
    /// The role of the agent, such as `Code Review Agent`.
    pub role: AgentRole,
    /// The task of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<AgentDescription>,
    /// The workstream that the agent owns.
    pub workstream: WorkstreamId,
    /// Other workstreams that it may read.
    #[serde(default)]
    pub readable_workstreams: Vec<WorkstreamId>,
    /// Rules for the agent, in addition to those of the project.
    #[serde(default)]
    pub constraints: Vec<BriefConstraint>,
    /// Applies in addition to the protocol of the project's mode. The stricter verdict counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation_protocol: Option<EscalationProtocol>,
    /// Rules that no approval overrides, on tool calls, and on the input and the output of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guardrail_policy: Option<GuardrailPolicy>,
    /// Limits of delegation; `None` leaves them to the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_policy: Option<DelegationPolicy>,
    /// Limits of the agent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_policy: Option<SessionPolicy>,
    /// Requirements on the workspace of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_requirements: Option<WorkspaceRequirements>,
    /// The secrets that the agent needs. The brief has no values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_refs: Vec<SecretRef>,
    /// What happens to decisions of the agent that are not made in time, instead of the project's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_timeout: Option<DecisionTimeoutPolicy>,
    /// What happens when the agent crashes, instead of the project's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash_recovery: Option<CrashRecoveryPolicy>,
    /// When the agent receives knowledge of its project while it works, instead of the default of the control mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_injection_policy: Option<ContextInjectionPolicy>,
    /// The model that the agent should use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preference: Option<ModelId>,
    /// Files that become artifacts when the agent writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifact_files: Vec<ArtifactFiles>,
    /// Names of the tools that the agent may use. If empty, those of its template or adapter.
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    /// MCP servers for the agent, in addition to those of its template and skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// The JSON Schema that the result of the agent has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// The adapter that drives the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterName>,
    /// Options that only the adapter interprets.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub provider_config: Value,
}

/// One violation of a brief.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BriefViolation {
    #[error("the project has no workstream `{0}`")]
    NoSuchWorkstream(WorkstreamId),
    #[error("is the agent's own workstream")]
    OwnWorkstream,
    #[error("is listed twice")]
    Duplicate,
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    #[error("must have at most {max_kib} KiB")]
    TooLarge { max_kib: usize },
    #[error("must have 1 to {max} characters")]
    ToolName { max: usize },
    #[error(transparent)]
    Protocol(ProtocolViolation),
    #[error(transparent)]
    Mcp(McpViolation),
    #[error(transparent)]
    Guardrail(GuardrailViolation),
    #[error(transparent)]
    Delegation(DelegationViolation),
    #[error(transparent)]
    SessionPolicy(SessionPolicyViolation),
    #[error(transparent)]
    Secret(SecretViolation),
    #[error(transparent)]
    Workspace(WorkspaceViolation),
    #[error(transparent)]
    ContextInjection(PolicyViolation),
    #[error(transparent)]
    OutputSchema(SchemaViolation),
    #[error(transparent)]
    ProviderConfig(ProviderConfigViolation),
}

impl AgentBrief {
    pub const MAX_CONSTRAINTS: usize = 50;
    pub const MAX_TOOLS: usize = 200;
    pub const MAX_TOOL_NAME: usize = 200;
    /// Most bytes of a brief as JSON; it is stored with the agent.
    pub const MAX_BYTES: usize = 128 * 1024;

    /// Checks the brief for an agent of `project`. Names every violation with its field. `tools` are the names of known tools.
    pub fn check(&self, project: &Project, tools: &[String]) -> Result<(), Vec<(String, BriefViolation)>> {
        let mut found = Vec::new();
        if serde_json::to_vec(self).map_or(usize::MAX, |json| json.len()) > Self::MAX_BYTES {
            let violation = BriefViolation::TooLarge { max_kib: Self::MAX_BYTES / 1024 };
            found.push((String::new(), violation));
        }
        self.check_workstreams(project, &mut found);
        if self.constraints.len() > Self::MAX_CONSTRAINTS {
            found.push(("constraints".to_owned(), BriefViolation::TooMany { max: Self::MAX_CONSTRAINTS }));
        }
        if self.artifact_files.len() > ArtifactFiles::MAX {
            found.push(("artifactFiles".to_owned(), BriefViolation::TooMany { max: ArtifactFiles::MAX }));
        }
        for (at, files) in self.artifact_files.iter().enumerate() {
            if self.artifact_files.iter().take(at).any(|earlier| earlier.pattern == files.pattern) {
                found.push((format!("artifactFiles[{at}].pattern"), BriefViolation::Duplicate));
            }
        }
        if self.allowed_tools.len() > Self::MAX_TOOLS {
            found.push(("allowedTools".to_owned(), BriefViolation::TooMany { max: Self::MAX_TOOLS }));
        }
        for (at, tool) in self.allowed_tools.iter().enumerate() {
            if !is_name(tool, Self::MAX_TOOL_NAME) {
                let violation = BriefViolation::ToolName { max: Self::MAX_TOOL_NAME };
                found.push((format!("allowedTools[{at}]"), violation));
            }
        }
        let tools = if self.allowed_tools.is_empty() { tools } else { &self.allowed_tools };
        if let Some(protocol) = &self.escalation_protocol
            && let Err(Violations(all)) = protocol.check_names(tools, &project.definition().tool_patterns)
        {
            let within = |(path, violation)| {
                (format!("escalationProtocol.{path}"), BriefViolation::Protocol(violation))
            };
            found.extend(all.into_iter().map(within));
        }
        let servers = McpServer::check_all(&self.mcp_servers, &self.allowed_tools).into_iter();
        found.extend(servers.map(|(path, violation)| (path, BriefViolation::Mcp(violation))));
        let guardrails = self.guardrail_policy.iter().flat_map(GuardrailPolicy::check);
        found.extend(guardrails.map(|(path, violation)| {
            (below("guardrailPolicy", &path), BriefViolation::Guardrail(violation))
        }));
        let delegation = self.delegation_policy.iter().flat_map(DelegationPolicy::check);
        found.extend(delegation.map(|(path, violation)| {
            (format!("delegationPolicy.{path}"), BriefViolation::Delegation(violation))
        }));
        let session = self.session_policy.iter().flat_map(SessionPolicy::check);
        found.extend(session.map(|(field, violation)| {
            (format!("sessionPolicy.{field}"), BriefViolation::SessionPolicy(violation))
        }));
        let workspace = self.workspace_requirements.iter().flat_map(WorkspaceRequirements::check);
        found.extend(workspace.map(|(path, violation)| {
            (format!("workspaceRequirements.{path}"), BriefViolation::Workspace(violation))
        }));
        let secrets = SecretRef::check_all(&self.secret_refs).into_iter();
        found.extend(secrets.map(|(path, violation)| (path, BriefViolation::Secret(violation))));
        let policy = self.context_injection_policy.as_ref().and_then(|policy| policy.check().err());
        found.extend(policy.into_iter().flatten().map(|violation| {
            ("contextInjectionPolicy".to_owned(), BriefViolation::ContextInjection(violation))
        }));
        let schema = self.output_schema.iter().flat_map(OutputSchema::violations);
        found.extend(schema.map(|(path, violation)| {
            (below("outputSchema", &path), BriefViolation::OutputSchema(violation))
        }));
        let config = check_provider_config(&self.provider_config).into_iter();
        found.extend(config.map(|(path, violation)| (path, BriefViolation::ProviderConfig(violation))));
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// The guardrails for tool calls.
    pub fn tool_guardrails(&self) -> &[ToolGuardrail] {
        self.guardrail_policy.as_ref().map_or(&[], |policy| &policy.tool_guardrails)
    }

    /// The guardrails for texts that are sent to the agent.
    pub fn input_guardrails(&self) -> &[InputGuardrail] {
        self.guardrail_policy.as_ref().map_or(&[], |policy| &policy.input_guardrails)
    }

    /// The rules for the outputs of the agent.
    pub fn output_rules(&self) -> OutputRules {
        let guardrails = self.guardrail_policy.as_ref().map(|policy| policy.output_guardrails.clone());
        OutputRules { schema: self.output_schema.clone(), guardrails: guardrails.unwrap_or_default() }
    }

    /// The workstreams that the agent may read and write.
    pub fn knowledge_scope(&self) -> KnowledgeScope {
        KnowledgeScope::new(self.workstream.clone(), self.readable_workstreams.clone())
    }

    /// The tools of the brief's MCP servers, as the configuration of an agent has them.
    pub fn mcp_tools(&self) -> Vec<McpToolDefinition> {
        let of_server = |server: &McpServer| {
            let server_uri = server.uri.clone();
            server.tools.clone().into_iter().map(move |McpServerTool { name, description, input_schema }| {
                McpToolDefinition { name, description, input_schema, server_uri: server_uri.clone() }
            })
        };
        self.mcp_servers.iter().flat_map(of_server).collect()
    }

    fn check_workstreams(&self, project: &Project, found: &mut Vec<(String, BriefViolation)>) {
        if !project.has_workstream(&self.workstream) {
            let violation = BriefViolation::NoSuchWorkstream(self.workstream.clone());
            found.push(("workstream".to_owned(), violation));
        }
        let mut seen = BTreeSet::new();
        for (at, readable) in self.readable_workstreams.iter().enumerate() {
            let violation = if *readable == self.workstream {
                BriefViolation::OwnWorkstream
            } else if !project.has_workstream(readable) {
                BriefViolation::NoSuchWorkstream(readable.clone())
            } else if !seen.insert(readable) {
                BriefViolation::Duplicate
            } else {
                continue;
            };
            found.push((format!("readableWorkstreams[{at}]"), violation));
        }
    }
}

fn below(root: &str, path: &str) -> String {
    if path.is_empty() { root.to_owned() } else { format!("{root}.{path}") }
}
