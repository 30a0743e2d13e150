//! `AskUserQuestion`: the session waits for its owner (S0 8.3 `RecordUserQuestionAskedCommand`).

use pilothouse_domain::ToolCallId;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{Question, QuestionOption};
use serde_json::Value;

/// Reads several questions from `questions`, or a single one from `question`. An input without questions is an ordinary tool call.
pub(super) fn fact(call: &ToolCallId, input: &Value) -> Option<AgentFact> {
    let several = input.get("questions").and_then(Value::as_array);
    let questions: Vec<Question> = match several {
        Some(list) => list.iter().filter_map(question).collect(),
        None => question(input).into_iter().collect(),
    };
    (!questions.is_empty()).then(|| AgentFact::QuestionAsked {
        request: call.clone(),
        questions,
        approval: None,
        proposal: None,
        timeout: None,
    })
}

fn text(value: &Value, name: &str, max: usize) -> Option<String> {
    value.get(name).and_then(Value::as_str).filter(|s| !s.trim().is_empty()).map(|s| cut(s, max))
}

fn question(value: &Value) -> Option<Question> {
    let options = value.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Some(Question {
        question: text(value, "question", 2000)?,
        header: text(value, "header", 100),
        options: options.iter().filter_map(option).collect(),
        multi_select: value.get("multiSelect").and_then(Value::as_bool).unwrap_or(false),
    })
}

/// An option is an object with a label, or the label itself.
fn option(value: &Value) -> Option<QuestionOption> {
    if let Some(label) = value.as_str() {
        return Some(QuestionOption { label: cut(label, 500), description: None });
    }
    Some(QuestionOption { label: text(value, "label", 500)?, description: text(value, "description", 1000) })
}
