//! Folds `TaskCreate` and `TaskUpdate` calls into one list (decision 27).
//!
//! The runtime assigns task ids, so a task exists once the *result* of its creation has arrived. `TodoWrite` is not
//! handled here: the control plane replaces the list.

use pilothouse_domain::value::SessionTaskStatus;
use pilothouse_wire::event::{RawEvent, RawTask};
use serde_json::Value;

use crate::kit::json::{first_text, text};

/// The tasks in creation order.
#[derive(Debug, Default)]
pub(super) struct TaskFold {
    tasks: Vec<RawTask>,
}

impl TaskFold {
    /// Whether results of `tool` affect the list.
    pub(super) fn concerns(tool: &str) -> bool {
        matches!(tool, "TaskCreate" | "TaskUpdate" | "TaskList")
    }

    /// Handles the successful result of a call: its `input`, the runtime's structured `outcome` if there is one, and
    /// its text `said`. Returns the new list if it changed.
    pub(super) fn result(
        &mut self,
        tool: &str,
        input: &Value,
        outcome: &Value,
        said: &str,
    ) -> Option<RawEvent> {
        let before = self.tasks.clone();
        match tool {
            "TaskCreate" => self.create(input, outcome, said),
            "TaskUpdate" => self.update(input, outcome),
            "TaskList" => self.learn(outcome),
            _ => {}
        }
        (self.tasks != before).then(|| RawEvent::TaskList { tasks: self.tasks.clone() })
    }

    fn create(&mut self, input: &Value, outcome: &Value, said: &str) {
        let created = outcome.get("task");
        let Some(id) = created.and_then(|task| id_at(task, "id")).or_else(|| id_in(said)) else { return };
        let subject = first_text(input, &["subject", "description"]).unwrap_or(&id).to_owned();
        let active_form = text(input, "activeForm").map(str::to_owned);
        let task = self.entry(&id);
        task.subject = subject;
        task.active_form = active_form;
    }

    fn update(&mut self, input: &Value, outcome: &Value) {
        if outcome.get("success").and_then(Value::as_bool) == Some(false) {
            return;
        }
        let Some(id) = id_at(input, "taskId").or_else(|| id_at(outcome, "taskId")) else { return };
        if text(input, "status") == Some("deleted") {
            self.tasks.retain(|task| task.id != id);
            return;
        }
        let task = self.entry(&id);
        if let Some(status) = text(input, "status").and_then(status) {
            task.status = status;
        }
        if let Some(subject) = first_text(input, &["subject"]) {
            subject.clone_into(&mut task.subject);
        }
        if let Some(active_form) = text(input, "activeForm") {
            task.active_form = Some(active_form.to_owned());
        }
    }

    /// Adds tasks of an earlier run, which only a listing shows. It never changes a known task, because a listing may
    /// be older than a concurrent update.
    fn learn(&mut self, outcome: &Value) {
        for listed in outcome.get("tasks").and_then(Value::as_array).into_iter().flatten() {
            let Some(id) = id_at(listed, "id") else { continue };
            if self.tasks.iter().any(|task| task.id == id && task.subject != placeholder(&id)) {
                continue;
            }
            let known = self.tasks.iter().any(|task| task.id == id);
            let task = self.entry(&id);
            if let Some(subject) = first_text(listed, &["subject"]) {
                subject.clone_into(&mut task.subject);
            }
            if !known && let Some(status) = text(listed, "status").and_then(status) {
                task.status = status;
            }
        }
    }

    fn entry(&mut self, id: &str) -> &mut RawTask {
        let position = self.tasks.iter().position(|task| task.id == id).unwrap_or_else(|| {
            self.tasks.push(RawTask {
                id: id.to_owned(),
                subject: placeholder(id),
                status: SessionTaskStatus::Pending,
                active_form: None,
            });
            self.tasks.len() - 1
        });
        &mut self.tasks[position]
    }
}

/// Subject of a task of an earlier run until a listing reports it.
fn placeholder(id: &str) -> String {
    format!("Task {id}")
}

fn status(word: &str) -> Option<SessionTaskStatus> {
    match word {
        "pending" => Some(SessionTaskStatus::Pending),
        "in_progress" => Some(SessionTaskStatus::InProgress),
        "completed" => Some(SessionTaskStatus::Completed),
        _ => None,
    }
}

fn id_at(value: &Value, key: &str) -> Option<String> {
    match value.get(key)? {
        Value::String(s) if !s.is_empty() => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    }
}

/// The id in `Task #1 created successfully: …`, for results without a structured outcome.
fn id_in(said: &str) -> Option<String> {
    let digits: String =
        said.split_once("Task #")?.1.chars().take_while(char::is_ascii_alphanumeric).collect();
    (!digits.is_empty()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tasks(event: Option<RawEvent>) -> Vec<(String, String, SessionTaskStatus)> {
        match event {
            Some(RawEvent::TaskList { tasks }) => {
                tasks.into_iter().map(|t| (t.id, t.subject, t.status)).collect()
            }
            other => panic!("no snapshot: {other:?}"),
        }
    }

    #[test]
    fn task_gets_its_id_from_the_result_text() {
        let mut fold = TaskFold::default();
        let event = fold.result(
            "TaskCreate",
            &json!({"subject": "A"}),
            &Value::Null,
            "Task #7 created successfully: A",
        );
        assert_eq!(tasks(event), [("7".into(), "A".into(), SessionTaskStatus::Pending)]);
    }

    #[test]
    fn failed_or_empty_update_makes_no_snapshot() {
        let mut fold = TaskFold::default();
        fold.result("TaskCreate", &json!({"subject": "A"}), &json!({"task": {"id": "1"}}), "");
        let input = json!({"taskId": "1", "status": "completed"});
        assert_eq!(fold.result("TaskUpdate", &input, &json!({"success": false}), ""), None);
        assert!(fold.result("TaskUpdate", &input, &json!({"success": true}), "").is_some());
        assert_eq!(fold.result("TaskUpdate", &input, &json!({"success": true}), ""), None);
    }

    #[test]
    fn deleted_task_leaves_the_list() {
        let mut fold = TaskFold::default();
        fold.result("TaskCreate", &json!({"subject": "A"}), &json!({"task": {"id": "1"}}), "");
        let event = fold.result("TaskUpdate", &json!({"taskId": "1", "status": "deleted"}), &Value::Null, "");
        assert_eq!(tasks(event), []);
    }

    #[test]
    fn listing_adds_tasks_of_earlier_runs_and_keeps_known_ones() {
        let mut fold = TaskFold::default();
        fold.result("TaskUpdate", &json!({"taskId": "1", "status": "in_progress"}), &Value::Null, "");
        let listing = json!({"tasks": [
            {"id": "1", "subject": "A", "status": "pending"},
            {"id": "2", "subject": "B", "status": "completed"}]});
        assert_eq!(
            tasks(fold.result("TaskList", &json!({}), &listing, "")),
            [
                ("1".into(), "A".into(), SessionTaskStatus::InProgress),
                ("2".into(), "B".into(), SessionTaskStatus::Completed)
            ]
        );
        assert_eq!(fold.result("TaskList", &json!({}), &listing, ""), None);
    }
}
