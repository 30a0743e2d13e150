//! `POST /api/agent/tasks`: creates a follow-up task (S0 8.7 `AgentCreateTaskCommand`, AG-012, decision 37).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::agent::CreatedTask;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_domain::agent_api::{AgentTaskPriority, AgentTaskSource, NewAgentTask};
use pilothouse_domain::text::{Tags, TaskDescription, TaskTitle};
use pilothouse_domain::{LinkedTaskId, SessionEvent};
use schemars::JsonSchema;
use serde_json::Value;

use super::AgentActivity;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-create-task", Verb::Post, "/api/agent/tasks", |verb| verb.route(create_task))
        .agent()
        .summary("Create a follow-up task")
        .input::<CreateTask>()
        .output::<CreatedTask>(&[201]);

/// A follow-up task.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTask {
    /// A short title.
    pub title: TaskTitle,
    /// The full description.
    #[deserr(default)]
    pub description: Option<TaskDescription>,
    /// The priority of the task.
    pub priority: AgentTaskPriority,
    /// Tags: at most 20, without duplicates.
    #[deserr(default)]
    #[schemars(default)]
    pub tags: Tags,
    /// The id, in another system, of the task that this one follows from.
    #[deserr(default)]
    pub linked_task_id: Option<LinkedTaskId>,
}

/// Responds with 201 and the id of the task. The task is stored and announced to other contexts. The session's status does
/// not change.
async fn create_task(
    state: State<App>,
    caller: AgentCaller,
    body: Body<CreateTask>,
) -> Result<CommandResponse, Problem> {
    let CreateTask { title, description, priority, tags, linked_task_id } = body.input;
    let activity = AgentActivity {
        function: "agent-create-task",
        request_hash: body.hash,
        summary: format!("Task created ({priority}): {title}"),
        body: Value::Null,
        view: None,
    };
    let task = NewAgentTask { title, description, priority, tags, linked_task_id };
    super::change_with_events(
        state,
        &caller,
        caller.session,
        activity,
        |_, ctx| {
            let created_task_id = ctx.task_id();
            let source = AgentTaskSource::AgentApi;
            Ok(vec![SessionEvent::ApiTaskCreated { created_task_id, task: task.clone(), source }])
        },
        |_, events| {
            let created = events.iter().find_map(|event| match event {
                SessionEvent::ApiTaskCreated { created_task_id, .. } => Some(*created_task_id),
                _ => None,
            });
            let task_id = created.ok_or_else(|| Problem::internal("the created task has no event"))?;
            CommandResponse::new(StatusCode::CREATED, None, &CreatedTask { task_id })
        },
    )
    .await
}
