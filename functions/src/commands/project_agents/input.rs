//! The brief of an agent as input (S2 `AgentBrief`).

use deserr::Deserr;
use pilothouse_api::Violation;
use pilothouse_api::input::Violations;
use pilothouse_app::http::Problem;
use pilothouse_classification::known_tools;
use pilothouse_domain::Project;
use pilothouse_domain::escalation::EscalationProtocol;
use pilothouse_domain::project_agent::AgentBrief;
use pilothouse_domain::text::{
    AdapterName, AgentDescription, AgentRole, BriefConstraint, ModelId, WorkstreamId,
};
use schemars::JsonSchema;
use serde_json::Value;

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
    /// The model that the agent should use. Default: that of the template or the adapter.
    #[deserr(default)]
    pub model_preference: Option<ModelId>,
    /// Names of the tools that the agent may use: at most 200. Default: those of the template or the adapter.
    #[deserr(default)]
    #[schemars(default)]
    pub allowed_tools: Vec<String>,
    /// The adapter that drives the agent. Default: that of the template, or the default adapter.
    #[deserr(default)]
    pub adapter: Option<AdapterName>,
    /// Options that the adapter defines. They may not replace fields of the brief, switch approvals off or contain secrets.
    #[deserr(default)]
    pub provider_config: Option<Value>,
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
            decision_timeout: None,
            model_preference: self.model_preference.clone(),
            allowed_tools: self.allowed_tools.clone(),
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
