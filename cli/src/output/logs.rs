use pilothouse_api::records::LogChunkView;

use super::Style;
use super::text::{clean, line, prefixed};

/// A chunk of a log. Each line names its stream.
pub fn chunk(chunk: &LogChunkView, style: Style) -> String {
    let stream = style.dim(&format!("{:<8}", line(&chunk.stream, 20)));
    prefixed(&clean(&chunk.content), &format!("{stream} "))
}

#[cfg(test)]
mod tests {
    use super::chunk;
    use crate::output::Style;

    #[test]
    fn each_log_line_names_its_source() {
        let view = serde_json::from_value(serde_json::json!({
            "sequenceNumber": 3, "stream": "agent", "content": "one\ntwo\n",
            "truncated": false, "recordedAt": "2026-11-21T20:01:00.000Z",
        }))
        .unwrap();
        assert_eq!(chunk(&view, Style::PLAIN), "agent    one\nagent    two\n");
    }
}
