//! Cursors of the live stream and of the journal's lists.

/// The cursor of a journal sequence.
pub fn cursor(sequence: u64) -> String {
    format!("j{sequence}")
}

/// Parses a cursor into the journal sequence and the number of messages of the next entry that the client has seen.
pub fn parse_cursor(cursor: &str) -> Option<(u64, usize)> {
    let rest = cursor.strip_prefix('j')?;
    match rest.split_once('.') {
        None => Some((rest.parse().ok()?, 0)),
        Some((sequence, seen)) => Some((sequence.parse().ok()?, seen.parse().ok()?)),
    }
}

/// The cursor after `seen` messages of the entry that follows `sequence`.
pub fn cursor_within(sequence: u64, seen: usize) -> String {
    format!("j{sequence}.{seen}")
}
