//! Marks: characters that represent text which is unknown before a command runs. They are in Unicode's private use area; a command that
//! contains them itself is not classified.

/// Any characters except `/`: a wildcard, a number, the name of the user.
pub(crate) const ANY: char = '\u{E000}';
/// Any characters: the output of a command, an unknown variable.
pub(crate) const UNKNOWN: char = '\u{E001}';
/// White space of an unquoted variable: the word is split here.
pub(crate) const SPLIT: char = '\u{E002}';

pub(crate) const fn is_mark(c: char) -> bool {
    matches!(c, ANY | UNKNOWN | SPLIT)
}

/// How a mark is shown to people.
pub(crate) const fn visible(c: char) -> char {
    match c {
        ANY => '*',
        UNKNOWN => '…',
        SPLIT => ' ',
        c => c,
    }
}

/// Whether a word is known completely.
pub(crate) fn is_literal(word: &str) -> bool {
    !word.contains(is_mark)
}
