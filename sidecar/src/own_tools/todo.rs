//! `TodoWrite`: the agent's own list of steps, replaced as a whole (decision 27).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{SessionTaskList, SessionTaskStatus};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::RawTask;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::arguments;
use crate::adapter::EventSink;

pub const NAME: &str = "TodoWrite";
/// In characters (decision 6).
const MAX_TEXT: usize = 500;

const DESCRIPTION: &str = "Replaces your list of steps, which your owner sees. Give the whole list each time. Keep one step \
in progress, and mark a step as completed as soon as it is.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// All steps, in order.
    todos: Vec<Todo>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Todo {
    /// What is to be done.
    content: String,
    /// Where it stands.
    status: TodoStatus,
    /// What to show while it is under way, for example `Running the tests`.
    #[serde(default)]
    active_form: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl Todo {
    /// As the control plane derives it from the call: the id is the position.
    fn task(self, at: usize) -> RawTask {
        RawTask {
            id: (at + 1).to_string(),
            subject: cut(&self.content, MAX_TEXT),
            status: match self.status {
                TodoStatus::Pending => SessionTaskStatus::Pending,
                TodoStatus::InProgress => SessionTaskStatus::InProgress,
                TodoStatus::Completed => SessionTaskStatus::Completed,
            },
            active_form: self.active_form.map(|text| cut(&text, MAX_TEXT)),
        }
    }
}

pub struct TodoTool {
    spec: ToolSpec,
    events: EventSink,
}

impl TodoTool {
    pub fn new(events: EventSink) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), events }
    }
}

#[async_trait]
impl Tool for TodoTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let Arguments { todos } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let count = todos.len();
        let kept = todos.into_iter().take(SessionTaskList::MAX_TASKS);
        let tasks = kept.enumerate().map(|(at, todo)| todo.task(at)).collect();
        match self.events.emit(RawEvent::TaskList { tasks }).await {
            Ok(()) => ToolOutput::text(format!("The list has {count} steps now.")),
            Err(e) => ToolOutput::error(format!("The list could not be kept: {e}")),
        }
    }
}
