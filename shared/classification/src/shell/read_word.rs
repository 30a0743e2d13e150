//! Words of the grammar's tree.

use tree_sitter::Node;

use super::read::{Reader, children};
use crate::syntax::{Operation, Parameter, Piece, Word};

/// Characters after a backslash in double quotes and in here-documents.
const IN_QUOTES: &[char] = &['$', '`', '"', '\\', '\n'];
const IN_HERE_DOCUMENT: &[char] = &['$', '`', '\\', '\n'];

impl Reader<'_> {
    pub(super) fn word(&mut self, node: Node<'_>) -> Option<Word> {
        let mut pieces = Vec::new();
        self.pieces(node, &mut pieces)?;
        Some(Word(pieces))
    }

    fn pieces(&mut self, node: Node<'_>, pieces: &mut Vec<Piece>) -> Option<()> {
        let source = self.source(node);
        match node.kind() {
            "command_name" | "concatenation" => {
                let mut end = node.start_byte();
                let mut before = "";
                for (_, child) in children(node) {
                    // The pieces of a word touch each other, and `$` before a quote belongs to it.
                    let text = self.source(child);
                    if child.start_byte() != end || before.ends_with('$') && text.starts_with(['"', '\'']) {
                        return None;
                    }
                    (end, before) = (child.end_byte(), text);
                    self.nested(|reader| reader.pieces(child, pieces))?;
                }
                if end != node.end_byte() {
                    return None;
                }
            }
            "number" if node.named_child_count() > 0 => {
                pieces.push(Piece::Arithmetic(self.expression(node)?));
            }
            "word"
            | "number"
            | "variable_name"
            | "special_variable_name"
            | "brace_expression"
            | "extglob_pattern"
            | "regex"
            | "test_operator"
            | "$"
            | "=="
            | "=~" => unquoted(source, pieces)?,
            "raw_string" => {
                let text = source.strip_prefix('\'')?.strip_suffix('\'')?;
                pieces.push(Piece::Literal(text.to_owned()));
            }
            "ansi_c_string" => {
                let text = source.strip_prefix("$'")?.strip_suffix('\'')?;
                pieces.push(Piece::Literal(without_escapes(text)?));
            }
            "string" => pieces.push(Piece::Quoted(self.quoted(node, IN_QUOTES)?)),
            "declare" | "typeset" | "export" | "readonly" | "local" | "unset" | "unsetenv" => {
                pieces.push(Piece::Literal(source.to_owned()));
            }
            _ => pieces.push(self.expansion(node)?),
        }
        Some(())
    }

    /// An expansion: a piece whose value is computed.
    fn expansion(&mut self, node: Node<'_>) -> Option<Piece> {
        let source = self.source(node).trim_start();
        match node.kind() {
            "simple_expansion" => {
                let name = source.strip_prefix('$').filter(|name| name.is_ascii())?.to_owned();
                Some(Piece::Parameter(Parameter { name, operation: Operation::Bare, words: Vec::new() }))
            }
            "expansion" => self.parameter(node),
            "command_substitution" => {
                // Backslashes in backquotes are removed before the script is parsed.
                if source.starts_with(['`']) && source.contains('\\') || source.starts_with("$`") {
                    return None;
                }
                let inner = source.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
                let inner = inner.or_else(|| source.strip_prefix('`')?.strip_suffix('`'))?;
                let has_file = children(node).iter().any(|(_, child)| child.kind() == "file_redirect");
                let script = if has_file { self.file_contents(node)? } else { self.statements(node)? };
                Some(Piece::CommandSubstitution { script, source: inner.trim().to_owned() })
            }
            "process_substitution" => Some(Piece::ProcessSubstitution(self.statements(node)?)),
            "arithmetic_expansion" => Some(Piece::Arithmetic(self.expression(node)?)),
            _ => None,
        }
    }

    /// `$(<file)`.
    fn file_contents(&mut self, node: Node<'_>) -> Option<Vec<crate::syntax::Statement>> {
        let mut simple = crate::syntax::Simple::default();
        for (_, child) in children(node).into_iter().filter(|(_, child)| child.is_named()) {
            self.redirect(child, &mut simple)?;
        }
        Some(vec![crate::syntax::Statement::Simple(simple)])
    }

    /// The pieces of a text in double quotes or of a here-document: expansions, and the text between them.
    fn quoted(&mut self, node: Node<'_>, escaped: &[char]) -> Option<Vec<Piece>> {
        let is_string = node.kind() == "string";
        let mut pieces = Vec::new();
        // `$"…"` is a text that can be translated.
        let begin = if self.source(node).starts_with("$\"") { 2 } else { usize::from(is_string) };
        let mut from = node.start_byte() + begin;
        let to = node.end_byte().checked_sub(usize::from(is_string))?;
        for (_, child) in children(node) {
            let kind = child.kind();
            if !matches!(
                kind,
                "expansion" | "simple_expansion" | "command_substitution" | "arithmetic_expansion"
            ) {
                continue;
            }
            // The grammar includes blanks before `$` in the expansion.
            let source = self.source(child);
            let blanks = source.len() - source.trim_start().len();
            literal(plain(self.text.get(from..child.start_byte() + blanks)?, escaped)?, &mut pieces);
            pieces.push(self.nested(|reader| reader.expansion(child))?);
            from = child.end_byte();
        }
        literal(plain(self.text.get(from..to)?, escaped)?, &mut pieces);
        Some(pieces)
    }

    pub(super) fn here_document_text(
        &mut self,
        delimiter: &str,
        body: Node<'_>,
        end: &str,
        strips_tabs: bool,
    ) -> Option<Word> {
        let name = delimiter.replace(['\'', '"', '\\'], "");
        let line = |line: &str| line.trim_start_matches(if strips_tabs { "\t" } else { "\n" }) == name;
        let source = self.source(body);
        // The document ends where a shell sees its end.
        if name.is_empty() || !line(end) || source.split('\n').any(line) {
            return None;
        }
        let piece = if name == delimiter {
            Piece::Quoted(self.quoted(body, IN_HERE_DOCUMENT)?)
        } else {
            Piece::Literal(source.to_owned())
        };
        Some(Word(vec![piece]))
    }

    /// `${…}`.
    fn parameter(&mut self, node: Node<'_>) -> Option<Piece> {
        let source = self.source(node).trim_start();
        if !source.is_ascii() {
            return None;
        }
        let children = children(node);
        let is_name = |kind: &str| matches!(kind, "variable_name" | "special_variable_name" | "subscript");
        let Some(at) = children.iter().position(|(_, child)| is_name(child.kind())) else {
            // `${!}`, `${#}` and the like.
            let name = source.strip_prefix("${")?.strip_suffix('}')?.to_owned();
            let is_special = name.len() == 1 && children.iter().all(|(_, child)| !child.is_named());
            let parameter = Parameter { name, operation: Operation::Value, words: Vec::new() };
            return is_special.then_some(Piece::Parameter(parameter));
        };
        let (_, variable) = children.get(at)?;
        let mut words = Vec::new();
        let mut name = self.source(*variable).to_owned();
        let is_list = name.ends_with("[@]") || name.ends_with("[*]");
        if variable.kind() == "subscript" {
            words.extend(self.expression(*variable)?);
            name.truncate(name.find('[')?);
        }
        let begin = node.end_byte() - source.len();
        let before = self.text.get(begin + 2..variable.start_byte())?;
        let after = self.text.get(variable.end_byte()..node.end_byte().checked_sub(1)?)?;
        let rest = children.get(at + 1..).unwrap_or_default();
        let operation = match (before, after) {
            ("", "") if is_list => Operation::Elements,
            ("", "") => Operation::Value,
            ("#", "") => Operation::Length,
            ("", "##*/") => Operation::FileName,
            ("", after) => match after.trim_start_matches(':').chars().next()? {
                '-' | '=' => Operation::Default,
                '+' => Operation::Alternative,
                '?' => Operation::Required,
                '%' if rest
                    .iter()
                    .filter(|(_, child)| child.is_named())
                    .all(|(_, c)| c.kind() == "regex") =>
                {
                    Operation::WithoutEnding
                }
                '@' => Operation::Indirect,
                _ => Operation::Change,
            },
            _ => Operation::Indirect,
        };
        let values: Vec<_> = rest.iter().filter(|(_, child)| child.is_named()).collect();
        for (_, child) in &values {
            if matches!(child.kind(), "binary_expression" | "parenthesized_expression" | "array") {
                words.extend(self.expression(*child)?);
            } else {
                words.push(self.nested(|reader| reader.word(*child))?);
            }
        }
        // Several words, and blanks around a word, are one text that is not reconstructed.
        let is_exact = values.first().is_none_or(|(_, value)| {
            let operator = self.text.get(variable.end_byte()..value.start_byte()).unwrap_or_default();
            values.len() == 1 && is_operator(operator) && value.end_byte() + 1 == node.end_byte()
        });
        let operation = match operation {
            Operation::Default | Operation::Alternative | Operation::WithoutEnding if !is_exact => {
                Operation::Change
            }
            operation => operation,
        };
        Some(Piece::Parameter(Parameter { name, operation, words }))
    }
}

/// Whether a text consists of the characters of operators only.
fn is_operator(text: &str) -> bool {
    text.chars().all(|c| ":-=+?%".contains(c))
}

fn literal(text: String, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece::Literal(text));
    }
}

/// Text in double quotes without its backslashes. `None` if it contains an expansion that the grammar did not see.
fn plain(text: &str, escaped: &[char]) -> Option<String> {
    // A shell removes escaped line breaks before it looks for expansions.
    if text.contains("$\\\n") {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next_if(|next| escaped.contains(next)) {
                Some('\n') => {}
                Some(next) => plain.push(next),
                None => plain.push('\\'),
            },
            '`' => return None,
            '$' => {
                let begins_expansion = |next: &char| {
                    next.is_alphanumeric()
                        || matches!(next, '(' | '{' | '[' | '_' | '@' | '*' | '#' | '?' | '!')
                };
                if chars.peek().is_some_and(begins_expansion) {
                    return None;
                }
                plain.push('$');
            }
            c => plain.push(c),
        }
    }
    Some(plain)
}

/// Splits a word at its backslashes: the character after one is literal. `None` if it contains an expansion.
fn unquoted(text: &str, pieces: &mut Vec<Piece>) -> Option<()> {
    if has_separator(text) {
        return None;
    }
    if text.contains(['`', '$', '<', '>']) {
        plain(text, &['$', '`', '\\'])?;
        if text.contains("<(") || text.contains(">(") {
            return None;
        }
    }
    if !text.contains('\\') {
        pieces.push(Piece::Unquoted(text.to_owned()));
        return Some(());
    }
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        if !plain.is_empty() {
            pieces.push(Piece::Unquoted(std::mem::take(&mut plain)));
        }
        match chars.next() {
            Some('\n') | None => {}
            Some(escaped) => pieces.push(Piece::Literal(escaped.to_string())),
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Unquoted(plain));
    }
    Some(())
}

/// Whether a word contains a character that ends it for a shell.
fn has_separator(text: &str) -> bool {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            ' ' | '\t' | '\n' | ';' | '&' => return true,
            _ => {}
        }
    }
    false
}

/// The text of `$'…'`. Rare escapes become unknown. `None` if the text ends earlier.
fn without_escapes(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => return None,
            '\\' => match chars.next()? {
                'n' => plain.push('\n'),
                't' => plain.push('\t'),
                c @ ('\\' | '\'' | '"' | '?') => plain.push(c),
                _ => plain.push(crate::marks::UNKNOWN),
            },
            c => plain.push(c),
        }
    }
    Some(plain)
}
