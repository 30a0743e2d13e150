//! Text of agents on the terminal of a person.

/// Removes control characters except line breaks and tabs: the text of an agent must not move the cursor, change the title or hide
/// other output.
pub fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        // Control characters that change the writing direction.
        .filter(|c| !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        .collect()
}

/// Cuts text to one line of at most `width` characters, and marks the cut.
pub fn line(text: &str, width: usize) -> String {
    let text = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= width {
        return text;
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// The text of an agent with every line indented.
pub fn indented(text: &str, by: &str) -> String {
    prefixed(&clean(text), by)
}

/// The text with a prefix on every line, and a line break at the end.
pub fn prefixed(text: &str, prefix: &str) -> String {
    text.lines().map(|line| format!("{prefix}{line}").trim_end().to_owned() + "\n").collect()
}

/// The name of a domain event in words: `message enqueued` for `MessageEnqueuedEvent`.
pub fn event(name: &str) -> String {
    let name = clean(name);
    let name = name.strip_suffix("Event").unwrap_or(&name);
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

/// `1 message`, `2 messages`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::{clean, count, event, indented, line};

    #[test]
    fn agent_text_cannot_control_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\x07\u{9b}c\r\n\td\u{202e}e"), "a[2Jbc\n\tde");
    }

    #[test]
    fn text_is_cut_to_one_line_with_a_marker() {
        assert_eq!(line("one\n  two", 20), "one two");
        assert_eq!(line("one two three", 8), "one two…");
        assert_eq!(line("äöüäöü", 4), "äöü…");
    }

    #[test]
    fn events_are_described_in_words() {
        assert_eq!(event("AgentSessionTurnStartedEvent"), "agent session turn started");
        assert_eq!(event("Event"), "");
    }

    #[test]
    fn lines_are_indented_and_plurals_agree() {
        assert_eq!(indented("a\nb", "  "), "  a\n  b\n");
        assert_eq!((count(1, "message"), count(0, "message")), ("1 message".into(), "0 messages".into()));
    }
}
