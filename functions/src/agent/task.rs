//! `POST /api/agent/tasks`: the agent creates a follow-up task (S0 8.7 `AgentCreateTaskCommand`, AG-012, ruling 37).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::agent_api::{AgentTaskPriority, AgentTaskSource, InvalidTags, NewAgentTask, Tags};
use pilothouse_domain::text::{InvalidText, TaskDescription, TaskTitle};
use pilothouse_domain::{DomainEvent, InvalidId, LinkedTaskId};
use schemars::JsonSchema;
use serde_json::Value;

use super::Said;
use crate::api::agent::CreatedTask;
use crate::app::App;
use crate::change::Answer;
use crate::edge::input::{Body, Said as Sentence, Violations, by_serde, maybe};
use crate::edge::{AgentCaller, Problem};

/// The task.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTask {
    /// What is to be done, in a line.
    #[deserr(try_from(String) = TaskTitle::try_from -> InvalidText)]
    pub title: TaskTitle,
    /// The same in full.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub description: Option<TaskDescription>,
    /// How urgent it is.
    #[deserr(try_from(Value) = by_serde -> Sentence)]
    pub priority: AgentTaskPriority,
    /// At most 20 tags, each once.
    #[deserr(default, try_from(Vec<String>) = Tags::try_from -> InvalidTags)]
    #[schemars(default)]
    pub tags: Tags,
    /// The task that it follows from, by the name that others have for it.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidId)]
    pub linked_task_id: Option<LinkedTaskId>,
}

/// 201 with the id of the task: it is kept, and told to other contexts. The session's status does not change.
pub async fn handle(
    state: State<App>,
    caller: AgentCaller,
    body: Body<CreateTask>,
) -> Result<Answer, Problem> {
    let CreateTask { title, description, priority, tags, linked_task_id } = body.input;
    let said = Said {
        function: "agent-create-task",
        request_hash: body.hash,
        summary: format!("Task created ({priority:?}): {title}"),
        body: Value::Null,
        view: None,
    };
    let task = NewAgentTask { title, description, priority, tags, linked_task_id };
    super::change_and_tell(
        state,
        &caller,
        caller.session,
        said,
        |_, cx| {
            let created_task_id = cx.task_id();
            let source = AgentTaskSource::AgentApi;
            Ok(vec![DomainEvent::ApiTaskCreated { created_task_id, task: task.clone(), source }])
        },
        |_, events| {
            let created = events.iter().find_map(|event| match event {
                DomainEvent::ApiTaskCreated { created_task_id, .. } => Some(*created_task_id),
                _ => None,
            });
            let task_id = created.ok_or_else(|| Problem::internal("a task without its event"))?;
            Answer::new(StatusCode::CREATED, None, &CreatedTask { task_id })
        },
    )
    .await
}
