//! `PUT /api/control-mode`: changes the control mode of a project (S2, "Control Mode Enforcement"; decision 70).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::projects::ControlModeView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::{DomainContext, Project, ProjectAgent, ProjectId};
use pilothouse_store::LoadedAggregate;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("control-mode-set", Verb::Put, "/api/control-mode", |verb| {
        verb.route(set_control_mode)
    })
    .owner()
    .summary("Change the control mode of a project")
    .input::<SetControlMode>()
    .output::<ControlModeView>(&[200]);

/// A control mode for a project.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetControlMode {
    /// The project. An owner with one project may leave it out.
    #[deserr(default)]
    pub project_id: Option<ProjectId>,
    /// How much the agents may do without a person.
    pub mode: ControlMode,
    /// Whether the processes of agents that were configured before the change restart. They continue their conversations. Default:
    /// `false`.
    #[deserr(default)]
    #[schemars(default)]
    pub restart_agents: Option<bool>,
}

/// Responds with 200 and the mode, or with 409 `project-archived`. It holds from the next tool call of each agent. Decisions that wait
/// already are not evaluated again; approvals of all further calls lapse if the mode becomes stricter. With `restartAgents`,
/// `restartedAgents` counts the agents whose processes restart for the mode; repeating the request restarts none of them again.
async fn set_control_mode(
    State(app): State<App>,
    command: CommandContext,
    body: Body<SetControlMode>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let SetControlMode { project_id, mode, restart_agents } = body.input;
    let id = app.chosen_project(&command.owner, project_id).await?.value.id();
    let decide =
        |project: &mut Project, ctx: &mut DomainContext<'_>| Ok(project.set_control_mode(mode, ctx)?);
    let show = |project: &Project, version: u64| CommandResponse::ok(version, &ControlModeView::of(project));
    let changed = app.change_aggregate(&command, id, decide, show).await?;
    if restart_agents == Some(true) { restart_agents_of(&app, &command, id).await } else { Ok(changed) }
}

/// Restarts the agents of a project for the mode that is in force. Each session changes in a transaction of its own; a repeated request
/// restarts those that remain.
async fn restart_agents_of(
    app: &App,
    command: &CommandContext,
    id: ProjectId,
) -> Result<CommandResponse, Problem> {
    let LoadedAggregate { value: project, version, .. } = app.load_aggregate::<Project>(command, id).await?;
    let server = CommandContext::for_server(command.owner.clone(), command.function);
    let (mode, mut restarted) = (project.control_mode(), 0);
    for agent in project.agents().keys() {
        let agent = app.load_aggregate::<ProjectAgent>(&server, *agent).await?.value;
        let session = agent.current_session_id();
        app.change_session(&server, session, |it, ctx| Ok(it.session.restart_process(mode, ctx))).await?;
        let session = app.session_of(&command.owner, session).await?;
        restarted += usize::from(session.is_restarted_for(mode.revision()));
    }
    let view = ControlModeView { restarted_agents: Some(restarted), ..ControlModeView::of(&project) };
    CommandResponse::ok(version, &view)
}
