//! `TodoWrite`: replaces the task list (S0 8.3 `UpdateSessionTaskListCommand`, decision 27).

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{SessionTask, SessionTaskStatus};
use serde_json::Value;

/// Reads the list from `todos`. An input without a list is an ordinary tool call.
pub(super) fn fact(input: &Value, now: Timestamp) -> Option<AgentFact> {
    let todos = input.get("todos")?.as_array()?;
    Some(AgentFact::TasksReplaced(todos.iter().enumerate().map(|(at, todo)| task(at, todo, now)).collect()))
}

fn task(at: usize, todo: &Value, now: Timestamp) -> SessionTask {
    let text = |name: &str| todo.get(name).and_then(Value::as_str).map(str::to_owned);
    SessionTask {
        id: text("id").unwrap_or_else(|| (at + 1).to_string()),
        subject: text("content").or_else(|| text("subject")).unwrap_or_else(|| "untitled".to_owned()),
        status: match text("status").as_deref() {
            Some("in_progress" | "InProgress") => SessionTaskStatus::InProgress,
            Some("completed" | "Completed") => SessionTaskStatus::Completed,
            _ => SessionTaskStatus::Pending,
        },
        active_form: text("activeForm"),
        updated_at: now,
    }
}
