//! Lines of an agent's output, of bounded length.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Most bytes of a line.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// For the log, in place of a line that is too long.
pub(crate) const SKIPPED: &str = "a message of more than 64 MiB was skipped";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// The output ended within the line.
    Unfinished(Vec<u8>),
    TooLong,
}

/// The next line without its end; `None` at the end of the output. Not cancel-safe.
pub(crate) async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    max_bytes: usize,
) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok((!line.is_empty()).then_some(Line::Unfinished(line)));
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(available.len());
        too_long |= line.len() + taken > max_bytes;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(&available[..taken]);
        }
        reader.consume(end.map_or(taken, |at| at + 1));
        if end.is_some() {
            return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    #[tokio::test]
    async fn long_lines_are_skipped_and_the_last_one_may_be_unfinished() {
        let mut reader = BufReader::with_capacity(4, &b"{}\n\n0123456789\nabc"[..]);
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut reader, 8).await.unwrap() {
            lines.push(line);
        }
        let whole = |text: &str| Line::Whole(text.into());
        assert_eq!(lines, [whole("{}"), whole(""), Line::TooLong, Line::Unfinished("abc".into())]);
    }
}
