//! Finds words in the texts of journal entries: messages, thinking, tool calls with their results, questions, and the other lines of the
//! activity stream (decision 97).

use std::borrow::Cow;

use pilothouse_api::records::TextMatch;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::text_search::SearchWords;
use pilothouse_domain::value::{ActivityItemType, Question};
use pilothouse_domain::{SessionEvent, SubAgentId};
use pilothouse_wire::event::{AssistantContent, RawEvent};
use serde_json::Value;

use crate::journal_views;

/// A text of an entry.
struct EntryText<'e> {
    kind: ActivityItemType,
    thinking: bool,
    sub_agent_id: Option<SubAgentId>,
    /// The index of the line of the activity stream that shows the text.
    line: Option<usize>,
    text: Cow<'e, str>,
}

/// Returns the first text of an entry that has all words. Texts that are truncated are searched as far as the records show them.
pub fn find(entry: &JournalEntry, words: &SearchWords) -> Option<TextMatch> {
    texts(entry).into_iter().find_map(|text| {
        let excerpt = words.find(&text.text)?;
        Some(TextMatch {
            journal_sequence: entry.sequence,
            activity_id: text.line.map(|at| journal_views::activity_id(entry, at)),
            kind: text.kind,
            thinking: text.thinking,
            sub_agent_id: text.sub_agent_id,
            timestamp: entry.at,
            excerpt: excerpt.text,
            words: excerpt.words,
        })
    })
}

/// The approximate size of an entry in bytes.
pub fn size(entry: &JournalEntry) -> usize {
    let lines = entry.activity.iter();
    let lines: usize =
        lines.map(|line| line.summary.len() + line.detail.as_ref().map_or(0, String::len)).sum();
    let body = match &entry.cause {
        Cause::Agent { body, .. } | Cause::AgentApi { body, .. } => value_size(body),
        Cause::Owner { .. } | Cause::Reaction { .. } | Cause::Clock => 0,
    };
    let texts = entry.events.iter().filter_map(|event| text_of(entry, event));
    lines + body + texts.map(|text| text.text.len()).sum::<usize>()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + value_size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => size_of::<Value>(),
    }
}

/// Full texts first, then the lines. Reports of usage are omitted, because nearly all of them are alike.
fn texts(entry: &JournalEntry) -> Vec<EntryText<'_>> {
    let mut texts: Vec<_> = reported(entry).into_iter().collect();
    texts.extend(entry.events.iter().filter_map(|event| text_of(entry, event)));
    let have_full_text: Vec<_> = texts.iter().filter_map(|text| text.line).collect();
    let lines = entry.activity.iter().enumerate();
    let lines = lines.filter(|(_, line)| line.kind != ActivityItemType::MetricsUpdate);
    texts.extend(lines.flat_map(|(at, line)| {
        // A full text contains the detail, but not always the summary: that of a result also says whether it is an error.
        let has_full_text = have_full_text.contains(&at);
        let detail = line.detail.iter().filter(move |_| !has_full_text);
        // A detail has the whole text of most summaries.
        detail.chain([&line.summary]).map(move |text| EntryText {
            kind: line.kind,
            thinking: false,
            sub_agent_id: line.sub_agent_id.clone(),
            line: Some(at),
            text: text.into(),
        })
    }));
    texts
}

/// The full text that the raw event of an entry reports. The line of a raw event is the first one.
fn reported(entry: &JournalEntry) -> Option<EntryText<'_>> {
    let (kind, thinking, sub_agent_id, text) = match journal_views::raw_event(entry)? {
        RawEvent::AssistantMessage { content, .. } => said(None, content),
        RawEvent::SubagentMessage { subagent_id, content } => said(Some(subagent_id), content),
        RawEvent::ToolResult { content, subagent_id, .. } => {
            (ActivityItemType::ToolCallEnd, false, subagent_id, content.text().into_owned())
        }
        _ => return None,
    };
    let line = entry.activity.first().filter(|line| line.kind == kind).map(|_| 0);
    Some(EntryText { kind, thinking, sub_agent_id, line, text: text.into() })
}

type Said = (ActivityItemType, bool, Option<SubAgentId>, String);

fn said(subagent: Option<SubAgentId>, content: AssistantContent) -> Said {
    match content {
        AssistantContent::Text { text } => {
            (ActivityItemType::Message, false, subagent, text.text().into_owned())
        }
        AssistantContent::Thinking { text } => {
            (ActivityItemType::Message, true, subagent, text.text().into_owned())
        }
        AssistantContent::ToolUse { tool_name, input, .. } => {
            let mut text = tool_name;
            add_words(&mut text, &input);
            (ActivityItemType::ToolCallStart, false, subagent, text)
        }
    }
}

/// Adds the names and values of an input, without the escapes of JSON.
fn add_words(text: &mut String, value: &Value) {
    match value {
        Value::String(word) => add_word(text, word),
        Value::Bool(_) | Value::Number(_) => add_word(text, &value.to_string()),
        Value::Array(items) => items.iter().for_each(|item| add_words(text, item)),
        Value::Object(fields) => {
            for (name, value) in fields {
                add_word(text, name);
                add_words(text, value);
            }
        }
        Value::Null => {}
    }
}

fn add_word(text: &mut String, word: &str) {
    text.push(' ');
    text.push_str(word);
}

/// The full text of an event of which a line has at most the beginning.
fn text_of<'e>(entry: &'e JournalEntry, event: &'e SessionEvent) -> Option<EntryText<'e>> {
    let (kind, line, text) = match event {
        SessionEvent::MessageDelivered { content, .. } => {
            (ActivityItemType::Message, None, content.as_str().into())
        }
        SessionEvent::WaitingForInput { questions, .. } => {
            let kind = ActivityItemType::UserQuestion;
            let line = entry.activity.iter().position(|line| line.kind == kind);
            (kind, line, text_of_questions(questions).into())
        }
        _ => return None,
    };
    Some(EntryText { kind, thinking: false, sub_agent_id: None, line, text })
}

fn text_of_questions(questions: &[Question]) -> String {
    let mut parts = Vec::new();
    for question in questions {
        parts.extend(question.header.as_deref());
        parts.push(question.question.as_str());
        for option in &question.options {
            parts.push(option.label.as_str());
            parts.extend(option.description.as_deref());
        }
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::text::MessageContent;
    use pilothouse_domain::value::ActivityItem;
    use pilothouse_domain::{Timestamp, ToolCallId};
    use serde_json::json;

    use super::*;

    fn entry(body: Value, events: Vec<SessionEvent>, activity: Vec<ActivityItem>) -> JournalEntry {
        JournalEntry { activity, ..crate::journal_views::tests::entry(body, events) }
    }

    fn line(kind: ActivityItemType, summary: &str) -> ActivityItem {
        ActivityItem::new(kind, summary, Timestamp::from_millis(1))
    }

    fn delivered(content: &str) -> SessionEvent {
        SessionEvent::MessageDelivered {
            message_id: "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap(),
            source: pilothouse_domain::value::MessageSource::User,
            content: MessageContent::parse(content).unwrap(),
            images: Vec::new(),
            delivered_at: Timestamp::from_millis(1),
        }
    }

    fn found(entry: &JournalEntry, query: &str) -> Option<TextMatch> {
        find(entry, &SearchWords::parse(query).unwrap())
    }

    #[test]
    fn messages_and_thoughts_are_found_beyond_their_lines() {
        let text = format!("{}the needle", "long ".repeat(2000));
        for (content, thinking) in [("text", false), ("thinking", true)] {
            let body = json!({ "type": "assistant_message", "content": { "kind": content, "text": text } });
            let lines = vec![line(ActivityItemType::Message, &text).with_detail(&text)];
            let found = found(&entry(body, Vec::new(), lines), "NEEDLE").unwrap();
            assert_eq!((found.kind, found.thinking), (ActivityItemType::Message, thinking));
            assert_eq!((found.journal_sequence, found.activity_id.as_deref()), (7, Some("7.0")));
            assert!(found.excerpt.ends_with("long the needle"), "{}", found.excerpt);
        }
    }

    #[test]
    fn tool_calls_are_found_by_name_input_and_output() {
        let input =
            json!({ "command": "cd \"x\"\nmake check", "timeout": 30, "env": [{ "RUST_LOG": "debug" }] });
        let content = json!({ "kind": "tool_use", "toolCallId": "c", "toolName": "Bash", "input": input });
        let body = json!({ "type": "subagent_message", "subagentId": "s", "content": content });
        let call = entry(body, Vec::new(), vec![line(ActivityItemType::ToolCallStart, "Bash: cd")]);
        for query in ["bash make", "\"x\"", "rust_log debug", "30", "COMMAND"] {
            let found = found(&call, query).unwrap();
            assert_eq!(found.kind, ActivityItemType::ToolCallStart, "{query}");
            assert_eq!(found.sub_agent_id.unwrap().as_str(), "s");
        }
        assert_eq!(found(&call, "bash needle"), None);
        let result = json!({ "type": "tool_result", "toolCallId": "c", "content": [{ "ok": "needle" }] });
        let result = entry(result, Vec::new(), Vec::new());
        let found = found(&result, "needle").unwrap();
        assert_eq!((found.kind, found.activity_id), (ActivityItemType::ToolCallEnd, None));
    }

    #[test]
    fn failed_tool_call_is_found_by_the_words_of_its_line() {
        let body = json!({ "type": "tool_result", "toolCallId": "c", "content": "no such file" });
        let lines =
            vec![line(ActivityItemType::ToolCallEnd, "Error: no such file").with_detail("no such file")];
        let found = found(&entry(body, Vec::new(), lines), "error file").unwrap();
        assert_eq!(
            (found.excerpt.as_str(), found.activity_id.as_deref()),
            ("Error: no such file", Some("7.0"))
        );
    }

    #[test]
    fn questions_are_found_with_their_options() {
        let asked: Vec<Question> = serde_json::from_value(json!([
            { "question": "Which colour?" },
            { "question": "Which size?", "options": [{ "label": "Large", "description": "Like an elephant" }] },
        ]))
        .unwrap();
        let event = SessionEvent::WaitingForInput {
            request_id: ToolCallId::parse("q").unwrap(),
            questions: asked,
            expires_at: None,
        };
        let lines = vec![
            line(ActivityItemType::Notice, "Something else"),
            line(ActivityItemType::UserQuestion, "Which colour?"),
        ];
        let entry = entry(json!({ "type": "question_asked" }), vec![event], lines);
        let asked = found(&entry, "size elephant").unwrap();
        assert_eq!((asked.kind, asked.activity_id.as_deref()), (ActivityItemType::UserQuestion, Some("7.1")));
        assert_eq!(found(&entry, "something").unwrap().activity_id.as_deref(), Some("7.0"));
    }

    #[test]
    fn delivered_messages_and_other_lines_are_found() {
        let delivered = delivered("Count the cups");
        let lines = vec![
            line(ActivityItemType::MetricsUpdate, "0.5 dollars so far"),
            line(ActivityItemType::Notice, "The provider is slow").with_detail("rate_limited"),
        ];
        let entry = entry(json!({ "type": "turn_started", "turnId": "t" }), vec![delivered], lines);
        let message = found(&entry, "cups").unwrap();
        assert_eq!((message.kind, message.activity_id), (ActivityItemType::Message, None));
        for query in ["provider", "rate_limited"] {
            let notice = found(&entry, query).unwrap();
            assert_eq!((notice.kind, notice.activity_id.as_deref()), (ActivityItemType::Notice, Some("7.1")));
        }
        assert_eq!(found(&entry, "dollars"), None, "usage is not searched");
    }

    #[test]
    fn size_counts_the_body_the_lines_and_the_messages() {
        let body = json!({ "type": "log_chunk", "stream": "agent", "content": "x".repeat(10_000) });
        let delivered = delivered(&"é".repeat(4_000));
        let size = size(&entry(body, vec![delivered], vec![line(ActivityItemType::Notice, "short")]));
        assert!((18_000..18_100).contains(&size), "{size}");
    }
}
