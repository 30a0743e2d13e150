//! `PATCH /api/projects/{id}`: updates fields of a project (S2; decision 71).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::input::trust::TrustInput;
use pilothouse_api::patch::Patch;
use pilothouse_api::projects::ProjectView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::coherence::CoherenceMonitorConfig;
use pilothouse_domain::decision::CrashRecoveryPolicy;
use pilothouse_domain::project::{ProjectBrief, ProjectDefinition, Workstream};
use pilothouse_domain::text::{BriefConstraint, Checkpoint, Goal, ProjectDescription, ProjectName};
use pilothouse_domain::tick::TickConfig;
use pilothouse_domain::{DomainContext, Project, ProjectId};
use schemars::JsonSchema;

use super::input::{
    DecisionTimeoutInput, EscalationInput, OrphanedDecisionsInput, SpendingCapInput, ToolPatternInput,
    WorkstreamInput, check_protocols, tool_patterns,
};
use super::project_response;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-update", Verb::Patch, "/api/projects/{id}", |verb| {
        verb.route(update_project)
    })
    .owner()
    .summary("Update fields of a project")
    .input::<UpdateProject>()
    .output::<ProjectView>(&[200]);

/// The changes to a project. Omitted fields keep their values; a list or object replaces the former one as a whole.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateProject {
    /// The name of the project. It must be unique among the owner's projects.
    #[deserr(default)]
    pub name: Option<ProjectName>,
    /// The purpose and background of the project, for its agents. `null` clears it.
    #[deserr(default)]
    pub description: Patch<ProjectDescription>,
    /// What the project is to achieve: at most 50 goals.
    #[deserr(default)]
    pub goals: Option<Vec<Goal>>,
    /// States of the work that people want to look at, in order: at most 50.
    #[deserr(default)]
    pub checkpoints: Option<Vec<Checkpoint>>,
    /// Rules for all agents of the project: at most 50.
    #[deserr(default)]
    pub constraints: Option<Vec<BriefConstraint>>,
    /// The parts of the work: at most 50. Workstreams that agents own must be among them.
    #[deserr(default)]
    pub workstreams: Option<Vec<WorkstreamInput>>,
    /// Which tool calls need a person, where it differs from the defaults of a control mode. Omitted modes keep their protocols.
    #[deserr(default)]
    pub escalation: Option<EscalationInput>,
    /// What happens to decisions that are not made in time, where it differs from the defaults of a control mode. Omitted modes keep
    /// their policies.
    #[deserr(default)]
    pub decision_timeout: Option<DecisionTimeoutInput>,
    /// What happens to open decisions of agents whose sessions end, where it differs from the defaults of a control mode. Omitted modes
    /// keep their policies.
    #[deserr(default)]
    pub orphaned_decisions: Option<OrphanedDecisionsInput>,
    /// What happens when an agent crashes. `null` restores the default: a person decides.
    #[deserr(default)]
    pub crash_recovery: Patch<CrashRecoveryPolicy>,
    /// How the coherence of the agents' work is monitored. Fields that are left out have their defaults; `null` restores all of them.
    #[deserr(default)]
    pub coherence: Patch<CoherenceMonitorConfig>,
    /// The effects of tools that the control plane does not know: at most 200 patterns.
    #[deserr(default)]
    pub tool_patterns: Option<Vec<ToolPatternInput>>,
    /// How the trust of the agents changes: a preset, with changes. Scores so far stay.
    #[deserr(default)]
    pub trust: Option<TrustInput>,
    /// How the ticks advance. The current tick stays.
    #[deserr(default)]
    pub tick_config: Option<TickConfig>,
    /// The most that the agents may spend together. `null` removes the cap. A brake that the cap has pulled stays in force.
    #[deserr(default)]
    pub spending_cap: Patch<SpendingCapInput>,
}

impl UpdateProject {
    fn over(&self, before: &ProjectDefinition) -> Result<ProjectDefinition, Problem> {
        let brief = &before.brief;
        let workstreams = self.workstreams.as_ref().map(|all| all.iter().cloned().map(Workstream::from));
        let patterns = self.tool_patterns.as_deref().map(tool_patterns).transpose()?;
        let mut policies = before.policies.clone();
        if let Some(changes) = &self.escalation {
            policies = changes.over(policies);
        }
        if let Some(changes) = &self.decision_timeout {
            policies = changes.over(policies);
        }
        if let Some(changes) = &self.orphaned_decisions {
            policies = changes.over(policies);
        }
        let definition = ProjectDefinition {
            brief: ProjectBrief {
                name: self.name.clone().unwrap_or_else(|| brief.name.clone()),
                description: self.description.apply_to(&brief.description),
                goals: self.goals.clone().unwrap_or_else(|| brief.goals.clone()),
                checkpoints: self.checkpoints.clone().unwrap_or_else(|| brief.checkpoints.clone()),
                constraints: self.constraints.clone().unwrap_or_else(|| brief.constraints.clone()),
            },
            workstreams: workstreams.map_or_else(|| before.workstreams.clone(), Iterator::collect),
            policies,
            tool_patterns: patterns.unwrap_or_else(|| before.tool_patterns.clone()),
            trust: self.trust.clone().map_or_else(|| before.trust.clone(), |input| input.0),
            tick_config: self.tick_config.unwrap_or(before.tick_config),
            spending_cap: self
                .spending_cap
                .try_map(SpendingCapInput::checked)?
                .apply_to(&before.spending_cap),
            crash_recovery: self.crash_recovery.apply_to(&before.crash_recovery),
            coherence: self.coherence.apply_to(&Some(before.coherence.clone())).unwrap_or_default(),
        };
        check_protocols(&definition)?;
        Ok(definition)
    }
}

/// Responds with 200 and the project, with 409 `workstream-in-use` when agents own a workstream that is missing from the new
/// list, or with 409 `project-archived`. Agents receive a changed brief with their next run or reload.
async fn update_project(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectId>,
    body: Body<UpdateProject>,
) -> Result<CommandResponse, Problem> {
    let (command, input) = (command.with_body(&body.hash), body.input);
    let decide = |project: &mut Project, ctx: &mut DomainContext<'_>| {
        let definition = input.over(project.definition())?;
        Ok(project.update(definition, ctx)?)
    };
    app.change_aggregate(&command, id, decide, project_response).await
}
