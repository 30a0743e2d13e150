//! Repairs events that do not fit their schema (S2, "Event validation pipeline"; decision 82).
//!
//! Only an event that cannot be read is repaired, and only if it can be read afterwards. The rules never invent a value.

use pilothouse_domain::journal::RepairRule;
use pilothouse_wire::RawEvent;
use serde::Deserialize as _;
use serde_json::{Number, Value};

/// The rules in the order in which they are tried.
const RULES: [RepairRule; 5] = [
    RepairRule::TypeName,
    RepairRule::NullField,
    RepairRule::TextField,
    RepairRule::ScalarField,
    RepairRule::ListField,
];
/// Whatever a tool takes is not ours to change.
const OPAQUE: [&str; 3] = ["input", "detail", "modifiedInput"];
const TEXTS: [&str; 31] = [
    "activeForm",
    "adapter",
    "code",
    "content",
    "costUsd",
    "description",
    "header",
    "id",
    "keyDecisions",
    "label",
    "leftUsd",
    "message",
    "meterId",
    "modelId",
    "name",
    "neededUsd",
    "objective",
    "question",
    "reason",
    "remainingWork",
    "requestId",
    "sidecarVersion",
    "stream",
    "subagentId",
    "subject",
    "summary",
    "text",
    "toolCallId",
    "toolName",
    "turnId",
    "usagePercent",
];
const LISTS: [&str; 7] =
    ["acceptanceCriteria", "availableModels", "deliverables", "options", "questions", "results", "tasks"];

/// A repaired event, with the rules that changed it.
pub(super) struct Repaired {
    pub(super) value: Value,
    pub(super) event: RawEvent,
    pub(super) rules: Vec<RepairRule>,
}

/// Repairs an event with as few rules as possible. `None` if it remains unreadable.
pub(super) fn repair(value: &Value) -> Option<Repaired> {
    let (mut value, mut rules) = (value.clone(), Vec::new());
    for rule in RULES {
        let before = value.clone();
        apply(rule, &mut value);
        if value == before {
            continue;
        }
        rules.push(rule);
        if let Ok(event) = RawEvent::deserialize(&value) {
            return Some(Repaired { value, event, rules });
        }
    }
    None
}

fn apply(rule: RepairRule, value: &mut Value) {
    match rule {
        RepairRule::TypeName => {
            if let Some(Value::String(name)) = value.get_mut("type") {
                *name = snake_case(name);
            }
        }
        RepairRule::NullField => visit(value, &mut |fields| fields.retain(|_, field| !field.is_null())),
        RepairRule::TextField => each_field(value, &|name, field| {
            let is_scalar = field.is_number() || field.is_boolean();
            (is_scalar && TEXTS.contains(&name)).then(|| Value::String(field.to_string()))
        }),
        RepairRule::ScalarField => each_field(value, &|name, field| match field {
            Value::String(text) if !TEXTS.contains(&name) && name != "type" && name != "kind" => scalar(text),
            _ => None,
        }),
        RepairRule::ListField => each_field(value, &|name, field| {
            (LISTS.contains(&name) && !field.is_array()).then(|| Value::Array(vec![field.clone()]))
        }),
    }
}

fn scalar(text: &str) -> Option<Value> {
    match text.trim() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number => number.parse::<Number>().ok().map(Value::Number),
    }
}

/// `toolResult`, `Tool-Result` and `TOOL RESULT` are `tool_result`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for c in name.trim().chars() {
        if c.is_ascii_uppercase() && after_lower {
            snake.push('_');
        }
        snake.push(if matches!(c, '-' | ' ' | '.') { '_' } else { c.to_ascii_lowercase() });
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    snake
}

fn each_field(value: &mut Value, change: &impl Fn(&str, &Value) -> Option<Value>) {
    visit(value, &mut |fields| {
        for (name, field) in fields {
            if let Some(changed) = change(name, field) {
                *field = changed;
            }
        }
    });
}

/// Visits the objects of an event.
fn visit(value: &mut Value, change: &mut impl FnMut(&mut serde_json::Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            change(fields);
            let inner = fields.iter_mut().filter(|(name, _)| !OPAQUE.contains(&name.as_str()));
            inner.for_each(|(_, field)| visit(field, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use RepairRule as R;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_rule_repairs_what_it_names() {
        let usage = json!({ "type": "usage_update", "meterId": "m", "modelId": "x", "costUsd": 0.25, "tokenUsage": { "inputTokens": 1 } });
        for (given, rules, field, expected) in [
            (
                json!({ "type": "logChunk", "stream": "agent", "content": "x" }),
                vec![R::TypeName],
                "/type",
                json!("log_chunk"),
            ),
            (
                json!({ "type": "LOG-CHUNK", "stream": "agent", "content": "x" }),
                vec![R::TypeName],
                "/type",
                json!("log_chunk"),
            ),
            (
                json!({ "type": "tool_result", "toolCallId": "c", "content": "x", "isError": null }),
                vec![R::NullField],
                "/content",
                json!("x"),
            ),
            (
                json!({ "type": "notice", "name": 7, "summary": true }),
                vec![R::TextField],
                "/summary",
                json!("true"),
            ),
            (usage, vec![R::TextField], "/costUsd", json!("0.25")),
            (
                json!({ "type": "tool_result", "toolCallId": "c", "content": "x", "isError": "true" }),
                vec![R::ScalarField],
                "/isError",
                json!(true),
            ),
            (
                json!({ "type": "task_list", "tasks": { "id": 1, "subject": "s", "status": "Pending" } }),
                vec![R::TextField, R::ListField],
                "/tasks/0/id",
                json!("1"),
            ),
        ] {
            assert!(RawEvent::deserialize(&given).is_err(), "{given} needs no repair");
            let repaired = repair(&given).unwrap_or_else(|| panic!("{given}"));
            assert_eq!(repaired.rules, rules, "{given}");
            assert_eq!(repaired.value.pointer(field), Some(&expected), "{given}");
        }
    }

    #[test]
    fn what_lacks_a_value_is_not_repaired() {
        for given in [
            json!({ "type": "nonsense" }),
            json!({ "type": "log_chunk", "stream": 1 }),
            json!({ "type": "notice", "name": "x", "summary": null }),
            json!({ "type": "notice", "name": "x", "summary": { "text": "y" } }),
            json!([1]),
            Value::Null,
        ] {
            assert!(repair(&given).is_none(), "{given}");
        }
    }

    #[test]
    fn input_of_a_tool_is_not_changed() {
        let input = json!({ "name": 7, "content": null, "options": "x", "isError": "true" });
        let content = json!({ "kind": "tool_use", "toolCallId": 9, "toolName": "T", "input": input });
        let given = json!({ "type": "assistantMessage", "content": content });
        let repaired = repair(&given).unwrap();
        assert_eq!(repaired.rules, [R::TypeName, R::TextField]);
        assert_eq!(repaired.value.pointer("/content/input"), Some(&input));
    }
}
