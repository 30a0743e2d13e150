//! Serializes a stream message to the text of a WebSocket message, within the size limit of API Gateway (decision 6).

use pilothouse_api::stream::{StreamBody, StreamMessage};
use pilothouse_app::connections::MAX_MESSAGE_BYTES;

/// Serializes a message. Returns `None` if it is too large and cannot be truncated.
///
/// A log chunk that is too large is truncated and marked with `truncated: true`; the session's log has the full text.
pub(super) fn frame(message: &StreamMessage) -> Result<Option<String>, serde_json::Error> {
    let text = serde_json::to_string(message)?;
    if text.len() <= MAX_MESSAGE_BYTES {
        return Ok(Some(text));
    }
    let mut cut = message.clone();
    let StreamBody::Log(chunk) = &mut cut.body else {
        tracing::error!(cursor = %message.cursor, bytes = text.len(), "dropped a message that is too large to post");
        return Ok(None);
    };
    let around = text.len() - serde_json::to_string(&chunk.content)?.len() + "\"\"".len();
    let end = fitting(&chunk.content, MAX_MESSAGE_BYTES.saturating_sub(around + '…'.len_utf8()));
    chunk.content.truncate(end);
    chunk.content.push('…');
    chunk.truncated = true;
    serde_json::to_string(&cut).map(Some)
}

/// Returns the length of the longest prefix of `text` that takes at most `limit` bytes within a JSON string.
fn fitting(text: &str, limit: usize) -> usize {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        if taken > limit {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use pilothouse_api::records::LogChunkView;
    use pilothouse_domain::Timestamp;

    use super::*;

    fn log(content: String) -> StreamMessage {
        let chunk = LogChunkView {
            sequence_number: 1,
            stream: "agent".to_owned(),
            content,
            truncated: false,
            blob: None,
            recorded_at: Timestamp::from_millis(1),
        };
        StreamMessage { cursor: "j1".to_owned(), body: StreamBody::Log(chunk) }
    }

    #[test]
    fn small_frame_is_posted_whole() {
        let message = log("line\n".repeat(1000));
        assert_eq!(frame(&message).unwrap().unwrap(), serde_json::to_string(&message).unwrap());
    }

    #[test]
    fn oversized_log_is_cut_between_characters_and_marked() {
        for piece in ["x", "ä\n\"", "\u{1}", "🚢"] {
            let text = frame(&log(piece.repeat(MAX_MESSAGE_BYTES / piece.len() + 10))).unwrap().unwrap();
            assert!(text.len() <= MAX_MESSAGE_BYTES, "{piece}: {} bytes", text.len());
            let StreamBody::Log(chunk) = serde_json::from_str::<StreamMessage>(&text).unwrap().body else {
                panic!("{piece}: no log")
            };
            assert!(
                chunk.truncated && chunk.content.ends_with('…') && chunk.content.starts_with(piece),
                "{piece}"
            );
        }
    }
}
