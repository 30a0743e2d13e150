//! Limits that a command has to keep before it is parsed.

use crate::marks::is_mark;

/// Longest command in bytes.
pub(super) const MAX_LENGTH: usize = 16 * 1024;
/// Maximum number of brackets, quotes and compound commands that are open at once.
const MAX_DEPTH: usize = 32;
/// Maximum number of here-documents. The grammar keeps their delimiters in a buffer of fixed size.
const MAX_HERE_DOCUMENTS: usize = 8;

/// Why a command is not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unparsed {
    #[error("a command that is too long")]
    TooLong,
    #[error("a command that is nested too deeply")]
    TooDeep,
    #[error("a command that is too complex")]
    TooComplex,
    #[error("a command with a character that shells read differently")]
    Character,
    #[error("a command that cannot be parsed")]
    Syntax,
}

/// Checks the length, the characters and the depth of a command.
pub(super) fn check(text: &str) -> Result<(), Unparsed> {
    if text.len() > MAX_LENGTH {
        return Err(Unparsed::TooLong);
    }
    if text.chars().any(is_ambiguous) {
        return Err(Unparsed::Character);
    }
    if text.matches("<<").count() > MAX_HERE_DOCUMENTS {
        return Err(Unparsed::TooComplex);
    }
    let deepest = bracket_depth(text).max(compound_depth(text)).max(text.matches('`').count() / 2);
    if deepest > MAX_DEPTH { Err(Unparsed::TooDeep) } else { Ok(()) }
}

/// Characters that end a word for the grammar and not for a shell, and the marks of unknown text.
fn is_ambiguous(c: char) -> bool {
    let is_blank = matches!(c, ' ' | '\t' | '\n');
    !is_blank && (c.is_control() || c.is_whitespace() || c == '\u{FEFF}' || is_mark(c))
}

fn bracket_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for c in text.chars() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn compound_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for word in text.split(|c: char| c.is_whitespace() || ";&|()`\"".contains(c)) {
        match word {
            "if" | "for" | "while" | "until" | "case" | "select" | "!" => depth += 1,
            "fi" | "done" | "esac" => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
