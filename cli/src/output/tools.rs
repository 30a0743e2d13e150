use pilothouse_api::records::ToolCallView;
use pilothouse_domain::Timestamp;
use pilothouse_domain::value::ToolCallStatus;
use serde_json::{Map, Value};

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::line;
use super::time;

/// The most informative field of the input, or the whole input.
fn input_summary(input: &Value) -> String {
    let summary_fields = ["command", "file_path", "path", "pattern", "query", "url", "prompt", "description"];
    let found = summary_fields.iter().find_map(|key| input.get(key)?.as_str());
    match found {
        Some(text) => text.to_owned(),
        None if input.as_object().is_some_and(Map::is_empty) => String::new(),
        None => input.to_string(),
    }
}

pub fn list(calls: &[ToolCallView], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&["TOOL", "STATUS", ">TOOK", "STARTED", "INPUT", "RESULT"]);
    for call in calls {
        let (status, paint) = match call.status {
            ToolCallStatus::Pending => ("runs", Paint::Cyan),
            ToolCallStatus::Success => ("done", Paint::Green),
            ToolCallStatus::Error => ("error", Paint::Red),
        };
        let took = call.completed_at.map(|at| format!("{:.1} s", at.since(call.started_at).as_secs_f64()));
        let result = call.result.as_ref().map(|result| line(&result.content, 40)).unwrap_or_default();
        table.row(vec![
            Cell::painted(line(&call.tool_name, 30), Paint::Bold),
            Cell::painted(status, paint),
            took.unwrap_or_default().into(),
            time::ago(call.started_at, now).into(),
            line(&input_summary(&call.input), 40).into(),
            Cell::painted(result, Paint::Dim),
        ]);
    }
    table.render(style)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::list;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn calls_are_listed_with_a_summary_of_input_and_result() {
        let calls = serde_json::from_value::<Vec<_>>(json!([
            { "id": "t1", "toolName": "Bash", "input": { "command": "cargo test" }, "truncated": false, "status": "Success",
              "result": { "content": "ok. 12 passed", "isError": false, "truncated": false },
              "startedAt": "2026-11-21T20:01:00.000Z", "completedAt": "2026-11-21T20:01:02.500Z" },
            { "id": "t2", "toolName": "Task", "input": {}, "truncated": false, "status": "Pending",
              "startedAt": "2026-11-21T20:01:50.000Z" },
        ]))
        .unwrap();
        assert_eq!(
            list(&calls, Style::PLAIN, now()),
            "\
TOOL  STATUS   TOOK  STARTED   INPUT       RESULT
Bash  done    2.5 s  60 s ago  cargo test  ok. 12 passed
Task  runs           10 s ago
"
        );
    }
}
