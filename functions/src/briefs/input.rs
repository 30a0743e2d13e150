//! The brief of an agent as input (S2 `AgentBrief`).

use deserr::Deserr;
use pilothouse_api::Violation;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_app::http::Problem;
use pilothouse_classification::known_tools;
use pilothouse_domain::Project;
use pilothouse_domain::artifact::{ArtifactKind, ArtifactPath};
use pilothouse_domain::decision::{CrashRecoveryPolicy, DecisionTimeoutPolicy};
use pilothouse_domain::escalation::{EscalationProtocol, GuardrailPolicy};
use pilothouse_domain::injection::ContextInjectionPolicy;
use pilothouse_domain::output_schema::OutputSchema;
use pilothouse_domain::project_agent::{
    AgentBrief, ArtifactFiles, DelegationPolicy, McpServer, McpServerTool, SecretRef, SessionPolicy,
    WorkspaceRequirements,
};
use pilothouse_domain::text::{
    AdapterName, AgentDescription, AgentRole, BriefConstraint, ModelId, ToolDescription, ToolName,
    WorkstreamId,
};
use pilothouse_domain::value::{InputSchema, ServerUri};
use schemars::JsonSchema;
use serde_json::Value;

use super::guardrails::GuardrailPolicyInput;
use crate::fields::schema_text;

/// The brief of an agent.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct BriefInput {
    /// The role of the agent, such as `Code Review Agent`.
    pub role: AgentRole,
    /// The task of the agent.
    #[deserr(default)]
    pub description: Option<AgentDescription>,
    /// The workstream that the agent owns.
    pub workstream: WorkstreamId,
    /// Other workstreams that it may read. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub readable_workstreams: Vec<WorkstreamId>,
    /// Rules for the agent, in addition to those of the project: at most 50. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub constraints: Vec<BriefConstraint>,
    /// Which of the agent's tool calls need a person, in addition to the protocol of the project's control mode: the stricter verdict
    /// counts.
    #[deserr(default)]
    pub escalation_protocol: Option<EscalationProtocol>,
    /// Rules that no approval overrides, on tool calls, and on the input and the output of the agent. Default: none.
    #[deserr(default)]
    pub guardrail_policy: Option<GuardrailPolicyInput>,
    /// Limits of delegation to subagents and other agents. Default: those of the adapter.
    #[deserr(default)]
    pub delegation_policy: Option<DelegationPolicy>,
    /// Limits of the agent's conversation. Default: those of the session.
    #[deserr(default)]
    pub session_policy: Option<SessionPolicy>,
    /// Requirements on the workspace of the agent. A start that no worker can satisfy is refused. Default: nothing is required.
    #[deserr(default)]
    pub workspace_requirements: Option<WorkspaceRequirements>,
    /// The secrets that the agent needs: at most 50. Their values are on the worker, or in the secret of the task. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub secret_refs: Vec<SecretRef>,
    /// What happens to decisions of the agent that are not made in time. Default: the policy of the project's control mode.
    #[deserr(default)]
    pub decision_timeout: Option<DecisionTimeoutPolicy>,
    /// What happens when the agent crashes. Default: the policy of the project.
    #[deserr(default)]
    pub crash_recovery: Option<CrashRecoveryPolicy>,
    /// When the agent receives knowledge of its project while it works. Default: the policy of the project's control mode.
    #[deserr(default)]
    pub context_injection_policy: Option<ContextInjectionPolicy>,
    /// The model that the agent should use. Default: that of the template or the adapter.
    #[deserr(default)]
    pub model_preference: Option<ModelId>,
    /// Files that become artifacts when the agent writes them with a tool: at most 20 patterns. Default: none. The agent reports others
    /// with its tool `report_artifact`.
    #[deserr(default)]
    #[schemars(default)]
    pub artifact_files: Vec<ArtifactFilesInput>,
    /// Names of the tools that the agent may use: at most 200. Default: those of the template or the adapter.
    #[deserr(default)]
    #[schemars(default)]
    pub allowed_tools: Vec<String>,
    /// MCP servers for the agent, in addition to those of its template and skills: at most 20, and 32 KiB. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub mcp_servers: Vec<McpServerInput>,
    /// The JSON Schema of the agent's result: at most 16 KiB, in the keywords that the control plane enforces. A result that violates
    /// it is returned to the agent twice, then it is reviewed with its violations. Default: the agent submits no result.
    #[deserr(default)]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub output_schema: Option<Value>,
    /// The adapter that drives the agent. Default: that of the template, or the default adapter.
    #[deserr(default)]
    pub adapter: Option<AdapterName>,
    /// Options that the adapter defines. They may not replace fields of the brief, switch approvals off or contain secrets.
    #[deserr(default)]
    pub provider_config: Option<Value>,
}

/// Files of the working directory that become artifacts.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactFilesInput {
    /// Paths relative to the working directory, such as `docs/*.md`. `*` matches any characters, also `/`, and `?` one character.
    pub pattern: ArtifactPath,
    /// What kind of artifact they are.
    pub kind: ArtifactKind,
}

/// An MCP server with the tools that the agent may use of it.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpServerInput {
    /// The absolute URI of the server, such as `https://tools.example.com/mcp` or `stdio:///program?arg=…`.
    pub uri: ServerUri,
    /// The tools: 1 to 50. If the brief has `allowedTools`, they must be listed there.
    pub tools: Vec<McpServerToolInput>,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpServerToolInput {
    /// The name of the tool, unique in the brief.
    pub name: ToolName,
    /// A description of the tool for the agent.
    pub description: ToolDescription,
    /// The JSON Schema of the tool's input, as text.
    #[deserr(try_from(String) = schema_text -> FieldError)]
    pub input_schema: InputSchema,
}

impl ArtifactFilesInput {
    fn files(&self) -> ArtifactFiles {
        ArtifactFiles { pattern: self.pattern.clone(), kind: self.kind }
    }
}

impl From<McpServerInput> for McpServer {
    fn from(input: McpServerInput) -> Self {
        let tool = |McpServerToolInput { name, description, input_schema }: McpServerToolInput| {
            McpServerTool { name, description, input_schema }
        };
        Self { uri: input.uri, tools: input.tools.into_iter().map(tool).collect() }
    }
}

impl BriefInput {
    /// The brief for an agent of `project`.
    ///
    /// # Errors
    /// [`Problem::Invalid`] names every violation, with its path below `root`.
    pub fn checked(&self, project: &Project, root: &str) -> Result<AgentBrief, Problem> {
        let brief = AgentBrief {
            role: self.role.clone(),
            description: self.description.clone(),
            workstream: self.workstream.clone(),
            readable_workstreams: self.readable_workstreams.clone(),
            constraints: self.constraints.clone(),
            escalation_protocol: self.escalation_protocol.clone(),
            guardrail_policy: self.guardrail_policy.clone().map(GuardrailPolicy::from),
            delegation_policy: self.delegation_policy.clone(),
            session_policy: self.session_policy,
            workspace_requirements: self.workspace_requirements.clone(),
            secret_refs: self.secret_refs.clone(),
            decision_timeout: self.decision_timeout,
            crash_recovery: self.crash_recovery,
            context_injection_policy: self.context_injection_policy.clone(),
            model_preference: self.model_preference.clone(),
            artifact_files: self.artifact_files.iter().map(ArtifactFilesInput::files).collect(),
            allowed_tools: self.allowed_tools.clone(),
            mcp_servers: self.mcp_servers.iter().cloned().map(McpServer::from).collect(),
            output_schema: self.output_schema.clone().map(OutputSchema::new),
            adapter: self.adapter.clone(),
            provider_config: self.provider_config.clone().unwrap_or_default(),
        };
        let violation = |(field, message): (String, _)| {
            let field = match (root, field.as_str()) {
                ("", _) => field,
                (_, "") => root.to_owned(),
                _ => format!("{root}.{field}"),
            };
            Violation { field, message: ToString::to_string(&message) }
        };
        brief.check(project, &known_tools()).map_err(
            |all: Vec<(String, pilothouse_domain::project_agent::BriefViolation)>| {
                Problem::Invalid(all.into_iter().map(violation).collect())
            },
        )?;
        Ok(brief)
    }
}
