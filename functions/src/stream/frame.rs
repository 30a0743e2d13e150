//! A message of the stream as the text of one WebSocket message, no larger than API Gateway takes (ruling 6).

use super::connections::MAX_MESSAGE_BYTES;
use crate::api::stream::{StreamBody, StreamMessage};

/// The text of a message; nothing when it is too large and has no text that can be cut.
///
/// Of a log chunk that is too large the beginning is told, with `truncated: true`; the whole is in the session's log.
pub(super) fn frame(message: &StreamMessage) -> Result<Option<String>, serde_json::Error> {
    let text = serde_json::to_string(message)?;
    if text.len() <= MAX_MESSAGE_BYTES {
        return Ok(Some(text));
    }
    let mut cut = message.clone();
    let StreamBody::Log(chunk) = &mut cut.body else {
        tracing::error!(cursor = %message.cursor, bytes = text.len(), "a message is too large to be posted");
        return Ok(None);
    };
    let around = text.len() - serde_json::to_string(&chunk.content)?.len() + "\"\"".len();
    let end = fitting(&chunk.content, MAX_MESSAGE_BYTES.saturating_sub(around + '…'.len_utf8()));
    chunk.content.truncate(end);
    chunk.content.push('…');
    chunk.truncated = true;
    serde_json::to_string(&cut).map(Some)
}

/// Where the longest beginning of `text` ends that takes at most `limit` bytes within a JSON string.
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
    use pilothouse_domain::Timestamp;

    use super::*;
    use crate::api::records::LogChunkView;

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
    fn what_fits_is_posted_whole() {
        let message = log("line\n".repeat(1000));
        assert_eq!(frame(&message).unwrap().unwrap(), serde_json::to_string(&message).unwrap());
    }

    #[test]
    fn a_log_that_is_too_large_is_cut_between_characters_and_says_so() {
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
