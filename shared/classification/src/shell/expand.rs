//! Expands words as far as they are known before the command runs.

use super::walk::Walker;
use crate::braces;
use crate::marks::{ANY, SPLIT, UNKNOWN};
use crate::syntax::{Operation, Piece, Statement, Word};

/// Commands that print one word without slashes.
const PLAIN_OUTPUT: &[&str] =
    &["date", "nproc", "whoami", "hostname", "id", "uname", "arch", "seq", "expr", "basename"];

impl Walker<'_> {
    /// The words that a word of a script becomes.
    pub(super) fn words(&mut self, word: &Word) -> Vec<String> {
        if let Some(text) = constant(word) {
            return vec![text];
        }
        let mut words = Vec::new();
        for alternative in self.alternatives(word) {
            if alternative.contains(SPLIT) {
                words.extend(alternative.split(SPLIT).filter(|word| !word.is_empty()).map(str::to_owned));
            } else {
                words.push(alternative);
            }
        }
        words
    }

    /// The one text that a word becomes; unknown if it can become several.
    pub(super) fn text(&mut self, word: &Word) -> String {
        if let Some(text) = constant(word) {
            return text;
        }
        let mut alternatives = self.alternatives(word);
        match (alternatives.pop(), alternatives.is_empty()) {
            (Some(one), true) => one.replace(SPLIT, " "),
            _ => UNKNOWN.to_string(),
        }
    }

    pub(super) fn alternatives(&mut self, word: &Word) -> Vec<String> {
        let Some(words) = braces::expand(word) else {
            self.findings.unclassified("a word with braces");
            return vec![UNKNOWN.to_string()];
        };
        let mut alternatives = Vec::new();
        for word in words {
            alternatives.extend(self.join(&word.0, false));
        }
        if alternatives.len() > braces::MAX_WORDS { vec![UNKNOWN.to_string()] } else { alternatives }
    }

    fn join(&mut self, pieces: &[Piece], quoted: bool) -> Vec<String> {
        let mut texts = vec![String::new()];
        for (at, piece) in pieces.iter().enumerate() {
            let mut values = self.piece(piece, quoted, at == 0);
            if pieces.len() > 1 && is_list(piece) && values.len() > 1 {
                values = vec![UNKNOWN.to_string()];
            }
            let size: usize = values.iter().chain(&texts).map(String::len).sum();
            self.count_steps(1 + size / 64);
            if let [value] = values.as_slice() {
                for text in &mut texts {
                    text.push_str(value);
                }
            } else if texts.len() * values.len() > braces::MAX_WORDS {
                texts = vec![UNKNOWN.to_string()];
            } else {
                texts = texts
                    .iter()
                    .flat_map(|text| values.iter().map(move |value| format!("{text}{value}")))
                    .collect();
            }
        }
        texts
    }

    fn piece(&mut self, piece: &Piece, quoted: bool, is_first: bool) -> Vec<String> {
        match piece {
            Piece::Literal(text) => vec![text.clone()],
            Piece::Unquoted(text) if quoted => vec![text.clone()],
            Piece::Unquoted(text) if is_first && text.starts_with('~') => self.tilde(text),
            Piece::Unquoted(text) => vec![globs(text)],
            Piece::Quoted(pieces) => self.join(pieces, true),
            Piece::Parameter(parameter) => {
                let mut values = self.parameter(parameter);
                if !quoted {
                    for value in &mut values {
                        if value.contains(char::is_whitespace) {
                            *value = value.replace(char::is_whitespace, &SPLIT.to_string());
                        }
                        *value = globs(value);
                    }
                }
                values
            }
            Piece::CommandSubstitution { script, source } => {
                self.in_subshell(script);
                self.output_of(source, script)
            }
            Piece::ProcessSubstitution(script) => {
                self.in_subshell(script);
                vec!["/dev/fd/63".to_owned()]
            }
            Piece::Arithmetic(words) => {
                for word in words {
                    self.alternatives(word);
                }
                vec![ANY.to_string()]
            }
        }
    }

    /// `~`, `~user` and `~+` at the start of a word.
    fn tilde(&mut self, text: &str) -> Vec<String> {
        let (user, rest) = text.find('/').map_or((text, ""), |at| text.split_at(at));
        let rest = globs(rest);
        let folders = match user.strip_prefix('~').unwrap_or_default() {
            "" => vec![self.places.home.to_owned()],
            "root" => vec!["/root".to_owned()],
            "+" => self.folders.clone(),
            user if user.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                vec![format!("/home/{user}")]
            }
            _ => vec![UNKNOWN.to_string()],
        };
        folders.into_iter().map(|folder| format!("{folder}{rest}")).collect()
    }

    /// What a command substitution prints, for a few commands.
    fn output_of(&self, source: &str, script: &[Statement]) -> Vec<String> {
        let mut words = source.split_whitespace();
        let is_simple = matches!(script, [Statement::Simple(_)]) && !source.contains(['<', '>', '$', '`']);
        match words.next().filter(|_| is_simple) {
            Some("pwd") => self.folders.clone(),
            Some("mktemp") => vec![format!("/tmp/{ANY}")],
            Some("git") if source == "git rev-parse --show-toplevel" => {
                vec![self.places.project_root.to_owned()]
            }
            Some(name) if PLAIN_OUTPUT.contains(&name) => vec![ANY.to_string()],
            _ => vec![UNKNOWN.to_string()],
        }
    }
}

/// Whether a piece becomes several words. Text beside it belongs to the first and the last of them.
fn is_list(piece: &Piece) -> bool {
    match piece {
        Piece::Parameter(parameter) => parameter.operation == Operation::Elements,
        Piece::Quoted(pieces) => pieces.iter().any(is_list),
        _ => false,
    }
}

/// The text of a word without expansions and wildcards.
fn constant(word: &Word) -> Option<String> {
    let special = |text: &str| text.contains(['*', '?', '[', '{', '~']);
    let mut constant = String::new();
    for piece in &word.0 {
        match piece {
            Piece::Literal(text) => constant.push_str(text),
            Piece::Unquoted(text) if !special(text) => constant.push_str(text),
            Piece::Quoted(pieces) => {
                for piece in pieces {
                    let Piece::Literal(text) = piece else { return None };
                    constant.push_str(text);
                }
            }
            _ => return None,
        }
    }
    Some(constant)
}

/// Replaces wildcards by marks. A set in brackets matches one character.
fn globs(text: &str) -> String {
    if !text.contains(['*', '?', '[']) {
        return text.to_owned();
    }
    let mut marked = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' => marked.push(ANY),
            '[' if chars.as_str().contains(']') => {
                for skipped in chars.by_ref() {
                    if skipped == ']' {
                        break;
                    }
                }
                marked.push(ANY);
            }
            c => marked.push(c),
        }
    }
    marked
}
