//! `POST /api/projects`: creates a project (S2; decision 71).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::Violations;
use pilothouse_api::input::trust::TrustInput;
use pilothouse_api::projects::ProjectView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_domain::coherence::CoherenceMonitorConfig;
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::decision::CrashRecoveryPolicy;
use pilothouse_domain::project::{ModePolicies, ProjectBrief, ProjectDefinition, Workstream};
use pilothouse_domain::text::{BriefConstraint, Checkpoint, Goal, ProjectDescription, ProjectName};
use pilothouse_domain::tick::TickConfig;
use pilothouse_domain::{DomainContext, Project, ProjectId};
use schemars::JsonSchema;

use super::input::{
    DecisionTimeoutInput, EscalationInput, OrphanedDecisionsInput, SpendingCapInput, ToolPatternInput,
    WorkstreamInput, check_protocols, tool_patterns,
};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-create", Verb::Post, "/api/projects", |verb| verb.route(create_project))
        .owner()
        .summary("Create a project")
        .input::<CreateProject>()
        .output::<ProjectView>(&[201]);

/// A new project.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateProject {
    /// The name of the project. It must be unique among the owner's projects.
    pub name: ProjectName,
    /// The purpose and background of the project, for its agents.
    #[deserr(default)]
    pub description: Option<ProjectDescription>,
    /// What the project is to achieve: at most 50 goals. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub goals: Vec<Goal>,
    /// States of the work that people want to look at, in order: at most 50. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub checkpoints: Vec<Checkpoint>,
    /// Rules for all agents of the project: at most 50. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub constraints: Vec<BriefConstraint>,
    /// The parts of the work: at most 50. Each agent owns one. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub workstreams: Vec<WorkstreamInput>,
    /// How much the agents may do without a person. Default: `adaptive`.
    #[deserr(default)]
    #[schemars(default)]
    pub control_mode: ControlMode,
    /// Which tool calls need a person, where it differs from the defaults of a control mode.
    #[deserr(default)]
    #[schemars(default)]
    pub escalation: EscalationInput,
    /// What happens to decisions that are not made in time, where it differs from the defaults of a control mode.
    #[deserr(default)]
    #[schemars(default)]
    pub decision_timeout: DecisionTimeoutInput,
    /// What happens to open decisions of agents whose sessions end, where it differs from the defaults of a control mode.
    #[deserr(default)]
    #[schemars(default)]
    pub orphaned_decisions: OrphanedDecisionsInput,
    /// What happens when an agent crashes. Default: a person decides.
    #[deserr(default)]
    pub crash_recovery: Option<CrashRecoveryPolicy>,
    /// How the coherence of the agents' work is monitored. Fields that are left out have their defaults.
    #[deserr(default)]
    #[schemars(default)]
    pub coherence: CoherenceMonitorConfig,
    /// The effects of tools that the control plane does not know: at most 200 patterns. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub tool_patterns: Vec<ToolPatternInput>,
    /// How the trust of the agents changes: a preset, with changes. Default: `balanced`.
    #[deserr(default)]
    pub trust: Option<TrustInput>,
    /// How the ticks advance. Default: one tick a second.
    #[deserr(default)]
    pub tick_config: Option<TickConfig>,
    /// The most that the agents may spend together. Default: no cap but those of their sessions.
    #[deserr(default)]
    pub spending_cap: Option<SpendingCapInput>,
}

impl CreateProject {
    fn definition(&self) -> Result<ProjectDefinition, Problem> {
        let definition = ProjectDefinition {
            brief: ProjectBrief {
                name: self.name.clone(),
                description: self.description.clone(),
                goals: self.goals.clone(),
                checkpoints: self.checkpoints.clone(),
                constraints: self.constraints.clone(),
            },
            workstreams: self.workstreams.iter().cloned().map(Workstream::from).collect(),
            policies: self
                .orphaned_decisions
                .over(self.decision_timeout.over(self.escalation.over(ModePolicies::new()))),
            tool_patterns: tool_patterns(&self.tool_patterns)?,
            trust: self.trust.clone().map(|input| input.0).unwrap_or_default(),
            tick_config: self.tick_config.unwrap_or_default(),
            spending_cap: self.spending_cap.map(SpendingCapInput::checked).transpose()?,
            crash_recovery: self.crash_recovery,
            coherence: self.coherence.clone(),
        };
        check_protocols(&definition)?;
        Ok(definition)
    }
}

/// Responds with 201 and the project, or with 409 `name-taken` when another project has the name.
async fn create_project(
    State(app): State<App>,
    command: CommandContext,
    body: Body<CreateProject>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let (definition, mode) = (body.input.definition()?, body.input.control_mode);
    let make = |ctx: &mut DomainContext<'_>| {
        let id = ProjectId::new(ctx.uuid());
        Ok(Project::create(id, command.owner.clone(), definition.clone(), mode, ctx)?)
    };
    let created = |project: &Project, version: u64| {
        CommandResponse::new(StatusCode::CREATED, Some(version), &ProjectView::of(project, version))
    };
    app.create_aggregate(&command, make, created).await
}
