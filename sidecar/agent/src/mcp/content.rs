//! Converts results of servers.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::message::UserContent;
use crate::output_text::{MAX_BYTES, head};
use crate::tool::ToolOutput;

pub(super) fn output(result: CallToolResult) -> ToolOutput {
    let mut content: Vec<UserContent> = result.content.into_iter().map(block).collect();
    if content.is_empty() {
        // Well-behaved servers repeat structured content as text.
        let text =
            result.structured_content.map_or_else(|| "(no output)".to_owned(), |value| value.to_string());
        content.push(text_block(text));
    }
    let is_error = result.is_error.unwrap_or(false);
    ToolOutput { content, is_error, ends_turn: false, may_succeed_later: false }
}

fn block(block: ContentBlock) -> UserContent {
    match block {
        ContentBlock::Text(text) => text_block(text.text),
        ContentBlock::Image(image) => UserContent::Image { mime_type: image.mime_type, data: image.data },
        ContentBlock::Audio(audio) => {
            text_block(format!("[Audio, {}: it cannot be shown.]", audio.mime_type))
        }
        ContentBlock::ResourceLink(link) => text_block(format!("[{}: {}]", link.name, link.uri)),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                text_block(format!("[{uri}]\n{text}"))
            }
            ResourceContents::BlobResourceContents { mime_type: Some(mime_type), blob, .. }
                if mime_type.starts_with("image/") =>
            {
                UserContent::Image { mime_type, data: blob }
            }
            ResourceContents::BlobResourceContents { uri, .. } => {
                text_block(format!("[{uri}: it cannot be shown.]"))
            }
            _ => text_block("[Something that cannot be shown.]".to_owned()),
        },
        _ => text_block("[Something that cannot be shown.]".to_owned()),
    }
}

fn text_block(text: String) -> UserContent {
    let shown = head(&text, MAX_BYTES);
    if shown.len() == text.len() {
        return UserContent::Text { text };
    }
    let text = format!("{shown}\n\n[The first {} of {} KB.]", MAX_BYTES / 1024, text.len() / 1024);
    UserContent::Text { text }
}
