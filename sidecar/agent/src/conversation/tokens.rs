//! Upper estimates of token counts, for use before a provider reports them.

use crate::message::{AgentMessage, AssistantContent, UserContent};
use crate::model::ToolSpec;

/// Lower bound for the average bytes per token: text has about four, code and JSON about three.
const BYTES_A_TOKEN: u64 = 3;
/// Upper bound for an image, at the size to which providers scale it.
const IMAGE: u64 = 1_600;
const FRAME: u64 = 8;
/// For the text around a user's command and its output.
const COMMAND: u64 = 32;

pub(crate) fn estimate_text(text: &str) -> u64 {
    estimate_bytes(text.len() as u64)
}

pub(crate) const fn estimate_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_A_TOKEN)
}

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
            AgentMessage::Assistant(reply) => {
                let tokens = reply.content.iter().map(|block| match block {
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

pub(crate) fn estimate_tools(tools: &[ToolSpec]) -> u64 {
    let tokens = tools.iter().map(|tool| {
        FRAME
            + estimate_text(&tool.name)
            + estimate_text(&tool.description)
            + estimate_text(&tool.input_schema.to_string())
    });
    tokens.sum()
}
