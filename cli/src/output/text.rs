//! Text of agents on a person's terminal.

/// Text without control characters other than line breaks and tabs: an agent's words must not move the cursor, change
/// the title or hide what stands before them.
pub fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        // Marks that turn the direction of what follows.
        .filter(|c| !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        .collect()
}

/// Text on one line of at most `width` characters; what is cut is marked.
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

/// An agent's text with each line moved to the right.
pub fn indented(text: &str, by: &str) -> String {
    prefixed(&clean(text), by)
}

/// Text with this before each line, and each line ended.
pub fn prefixed(text: &str, prefix: &str) -> String {
    text.lines().map(|line| format!("{prefix}{line}").trim_end().to_owned() + "\n").collect()
}

/// The name of a domain event as people say it: `MessageEnqueuedEvent` is `message enqueued`.
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
    fn an_agent_cannot_control_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\x07\u{9b}c\r\n\td\u{202e}e"), "a[2Jbc\n\tde");
    }

    #[test]
    fn a_line_is_one_and_says_that_it_was_cut() {
        assert_eq!(line("one\n  two", 20), "one two");
        assert_eq!(line("one two three", 8), "one two…");
        assert_eq!(line("äöüäöü", 4), "äöü…");
    }

    #[test]
    fn events_are_said_in_words() {
        assert_eq!(event("AgentSessionTurnStartedEvent"), "agent session turn started");
        assert_eq!(event("Event"), "");
    }

    #[test]
    fn lines_are_moved_and_numbers_agree() {
        assert_eq!(indented("a\nb", "  "), "  a\n  b\n");
        assert_eq!((count(1, "message"), count(0, "message")), ("1 message".into(), "0 messages".into()));
    }
}
