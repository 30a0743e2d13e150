//! A conversation as text, as input for a summary.

use std::fmt::Write;
use std::sync::Arc;

use crate::message::{AgentMessage, AssistantContent, UserContent};

/// The most bytes of a block of each kind. Messages of the user are never cut.
#[derive(Clone, Copy)]
struct Cuts {
    results: usize,
    arguments: usize,
    replies: usize,
}

/// Tool output is long and seldom needed again, so it is cut in any case. The other blocks are cut only if the
/// conversation does not fit otherwise.
const LEVELS: [Cuts; 4] = [
    Cuts { results: 4_000, arguments: usize::MAX, replies: usize::MAX },
    Cuts { results: 1_000, arguments: usize::MAX, replies: usize::MAX },
    Cuts { results: 500, arguments: 1_000, replies: usize::MAX },
    Cuts { results: 200, arguments: 200, replies: 1_000 },
];

/// About `limit` bytes at most. If the conversation is too long with all cuts, its middle is left out.
pub(crate) fn transcript(messages: &[Arc<AgentMessage>], limit: usize) -> String {
    let mut text = String::new();
    for cuts in LEVELS {
        text = rendered(messages, cuts);
        if text.len() <= limit {
            return text;
        }
    }
    shortened(&text, limit)
}

fn rendered(messages: &[Arc<AgentMessage>], cuts: Cuts) -> String {
    let mut text = String::new();
    for message in messages {
        match &**message {
            AgentMessage::User(user) => block(&mut text, "User", &joined(&user.content), usize::MAX),
            AgentMessage::ToolResult(result) => {
                let title = if result.is_error { "Failed" } else { "Result" };
                let title = format!("{title} of {}", result.tool_name);
                block(&mut text, &title, &joined(&result.content), cuts.results);
            }
            AgentMessage::BashExecution(bash) if bash.exclude_from_context => {}
            AgentMessage::BashExecution(bash) => {
                block(&mut text, &format!("User ran `{}`", bash.command), &bash.output, cuts.results);
            }
            AgentMessage::Assistant(reply) => {
                for content in &reply.content {
                    match content {
                        AssistantContent::Text { text: said } => {
                            block(&mut text, "Assistant", said, cuts.replies);
                        }
                        AssistantContent::Thinking { .. } => {}
                        AssistantContent::ToolCall(call) => {
                            let title = format!("Assistant calls {}", call.name);
                            block(&mut text, &title, &call.arguments.to_string(), cuts.arguments);
                        }
                    }
                }
            }
        }
    }
    text
}

fn block(text: &mut String, title: &str, content: &str, most: usize) {
    // Writing to a string cannot fail.
    let _ = write!(text, "[{title}]\n{}\n\n", shortened(content, most));
}

fn joined(content: &[UserContent]) -> String {
    let parts = content.iter().map(|block| match block {
        UserContent::Text { text } => text.as_str(),
        UserContent::Image { .. } => "(an image)",
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The beginning and the end of a text that is longer than `limit` bytes.
fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(limit / 3);
    let tail = text.ceil_char_boundary(text.len() - (limit - limit / 3));
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{head}\n… {} bytes left out …\n{tail}", text.len() - head.len() - tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        let text = format!("begin{}end", "ü".repeat(1_000));
        let short = shortened(&text, 100);
        assert!(short.starts_with("begin") && short.ends_with("end") && short.len() < 150, "{short}");
        assert_eq!(shortened("as it is", 100), "as it is");
    }
}
