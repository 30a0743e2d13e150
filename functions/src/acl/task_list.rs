//! `task_list`: the complete task list, which the sidecar maintains (decision 27).

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::SessionTask;
use pilothouse_wire::event::RawTask;

use super::Mapping;

/// Maps to `UpdateSessionTaskListCommand`.
pub fn map(tasks: &[RawTask], now: Timestamp) -> Mapping {
    let tasks = tasks.iter().map(|task| SessionTask {
        id: task.id.clone(),
        subject: task.subject.clone(),
        status: task.status,
        active_form: task.active_form.clone(),
        updated_at: now,
    });
    Mapping::to(AgentFact::TasksReplaced(tasks.collect()))
}
