//! How many tokens something takes, before a provider has said so.

use crate::message::{AgentMessage, AssistantContent, UserContent};
use crate::model::ToolSpec;

/// Bytes a token has at least, on average: text has about four, code and JSON about three.
const BYTES_A_TOKEN: u64 = 3;
/// What providers take at most for an image of the size that they scale to.
const IMAGE: u64 = 1_600;
/// What goes around a message.
const FRAME: u64 = 8;
/// What is said around a command of the user and its output.
const COMMAND: u64 = 32;

/// An upper estimate for a text.
pub(crate) fn estimate_text(text: &str) -> u64 {
    estimate_bytes(text.len() as u64)
}

/// An upper estimate for so many bytes of text.
pub(crate) const fn estimate_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_A_TOKEN)
}

/// An upper estimate for a message.
pub(crate) fn estimate(message: &AgentMessage) -> u64 {
    let content = |blocks: &[UserContent]| -> u64 {
        let tokens = blocks.iter().map(|block| match block {
            UserContent::Text { text } => estimate_text(text),
            UserContent::Image { .. } => IMAGE,
        });
        tokens.sum()
    };
    FRAME
        + match message {
            AgentMessage::User(user) => content(&user.content),
            AgentMessage::ToolResult(result) => content(&result.content),
            AgentMessage::BashExecution(bash) if bash.exclude_from_context => 0,
            AgentMessage::BashExecution(bash) => {
                COMMAND + estimate_text(&bash.command) + estimate_text(&bash.output)
            }
            AgentMessage::Assistant(answer) => {
                let tokens = answer.content.iter().map(|block| match block {
                    AssistantContent::Text { text } => estimate_text(text),
                    AssistantContent::Thinking { thinking, signature } => {
                        estimate_text(thinking) + signature.as_deref().map_or(0, estimate_text)
                    }
                    AssistantContent::ToolCall(call) => {
                        estimate_text(&call.name) + estimate_text(&call.arguments.to_string())
                    }
                });
                tokens.sum()
            }
        }
}

/// An upper estimate for what tools take in a request.
pub(crate) fn estimate_tools(tools: &[ToolSpec]) -> u64 {
    let tokens = tools.iter().map(|tool| {
        FRAME
            + estimate_text(&tool.name)
            + estimate_text(&tool.description)
            + estimate_text(&tool.input_schema.to_string())
    });
    tokens.sum()
}
