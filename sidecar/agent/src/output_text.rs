//! Limits and cleans the text that a tool returns.

/// Limit for one result of a tool.
pub(crate) const MAX_LINES: usize = 2000;
/// Limit for one result of a tool.
pub(crate) const MAX_BYTES: usize = 50 * 1024;

/// The longest end of a text within the limits: complete lines, or the end of the last one if it alone is too long.
pub(crate) fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(MAX_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if from > 0
        && let Some(newline) = text.as_bytes()[from - 1..].iter().position(|byte| *byte == b'\n')
    {
        from += newline;
    }
    let shown = text[from..].strip_suffix('\n').unwrap_or(&text[from..]);
    let lines = shown.rmatch_indices('\n').nth(MAX_LINES - 1);
    &text[lines.map_or(from, |(at, _)| from + at + 1)..]
}

/// The beginning of a text, at most `bytes` bytes.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

pub(crate) fn newlines(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').skip(1).fold(0, |count, _| count + 1)
}

/// The text as a terminal displays it: without escape sequences and control characters, and with only the last state of
/// lines that overwrite themselves.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut line = 0;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' => {
                cleaned.push('\n');
                line = cleaned.len();
            }
            '\t' => cleaned.push('\t'),
            '\r' if characters.peek().is_some_and(|next| *next != '\n' && *next != '\r') => {
                cleaned.truncate(line);
            }
            '\u{1b}' => match characters.next() {
                // Skip to the final character of the sequence.
                Some('[') => _ = characters.find(|next| ('\u{40}'..='\u{7e}').contains(next)),
                // Skip to the bell, or to the escape of the string terminator.
                Some(']' | 'P' | '^' | '_')
                    if characters.find(|next| matches!(next, '\u{7}' | '\u{1b}')) == Some('\u{1b}') =>
                {
                    characters.next();
                }
                _ => {}
            },
            other if other.is_control() => {}
            other => cleaned.push(other),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_control_sequences_are_removed() {
        assert_eq!(
            clean("\u{1b}[1;31mred\u{1b}[0m\r\n10%\r100%\r\n\u{1b}]0;title\u{7}x\u{0}\ty"),
            "red\n100%\nx\ty"
        );
    }

    proptest! {
        #[test]
        fn a_tail_is_an_end_that_fits(text in "(a{0,30}|ü\n){0,60}", repeat in 0_usize..1500) {
            let text = text.repeat(repeat.min(200_000 / text.len().max(1)));
            let end = tail(&text);
            prop_assert!(text.ends_with(end));
            prop_assert!(end.len() <= MAX_BYTES && end.lines().count() <= MAX_LINES);
            prop_assert!(end.len() == text.len() || text.lines().count() > MAX_LINES || text.len() > MAX_BYTES);
        }

        #[test]
        fn any_text_can_be_cleaned(text in any::<String>()) {
            let cleaned = clean(&text);
            prop_assert!(cleaned.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
            prop_assert_eq!(clean(&cleaned), cleaned);
        }
    }
}
