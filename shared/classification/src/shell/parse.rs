//! Parses shell commands with the grammar of tree-sitter.
//!
//! The grammar recovers from errors and accepts some texts that no shell accepts. A tree is used only if it has no errors and
//! explains every character of the text; otherwise the text counts as one that cannot be parsed.

use std::borrow::Cow;
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::limits::{Unparsed, check};
use super::read::Reader;
use crate::syntax::Statement;

/// Maximum number of steps of the parser, in units of 100 of its operations. A usual command needs one, a text of the maximum length about 500.
const MAX_PARSER_STEPS: usize = 800;

/// A parsed script.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) statements: Vec<Statement>,
    /// Steps that the parser needed.
    pub(super) steps: usize,
}

/// Parses a script.
pub(super) fn parse(text: &str) -> Result<Script, Unparsed> {
    check(text)?;
    let (tree, steps) = tree(text)?;
    let root = tree.root_node();
    if root.has_error() || !explains_every_character(root, text) {
        return Err(Unparsed::Syntax);
    }
    let statements = Reader::new(text).script(root).ok_or(Unparsed::Syntax)?;
    Ok(Script { statements, steps })
}

fn tree(text: &str) -> Result<(Tree, usize), Unparsed> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).map_err(|_| Unparsed::Syntax)?;
    let mut steps = 0;
    let mut count = |_: &ParseState| {
        steps += 1;
        if steps > MAX_PARSER_STEPS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut count);
    let text = ascii(text);
    let bytes = text.as_bytes();
    let tree =
        parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
    tree.map(|tree| (tree, steps)).ok_or(Unparsed::TooComplex)
}

/// Puts letters in the place of other characters than ASCII, as many as the character has bytes. They are parts of words for a shell
/// as well, and the grammar's scanner, which is written in C, looks each character up in a table for bytes.
fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut letters = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            letters.push(c);
        } else {
            letters.extend(std::iter::repeat_n('x', c.len_utf8()));
        }
    }
    Cow::Owned(letters)
}

/// Whether the text between the nodes is blank, and comments begin where a shell sees one.
fn explains_every_character(root: Node<'_>, text: &str) -> bool {
    let between = |gaps: Gaps, from: usize, to: usize| match gaps {
        Gaps::Text => true,
        Gaps::Lines => text.get(from..to).is_some_and(is_blank),
        Gaps::Blanks => text.get(from..to).is_some_and(|text| is_blank(text) && is_one_line(text)),
    };
    if !between(Gaps::Lines, 0, root.start_byte()) || !between(Gaps::Lines, root.end_byte(), text.len()) {
        return false;
    }
    let mut cursor = root.walk();
    let mut open: Vec<Gaps> = Vec::new();
    loop {
        let node = cursor.node();
        let is_in_line = open.last() == Some(&Gaps::Blanks);
        if node.kind() == "comment" && (is_in_line || !begins_comment(text, node.start_byte())) {
            return false;
        }
        if cursor.goto_first_child() {
            let gaps = gaps(node.kind());
            if !between(gaps, node.start_byte(), cursor.node().start_byte()) {
                return false;
            }
            open.push(gaps);
            continue;
        }
        loop {
            let end = cursor.node().end_byte();
            if cursor.goto_next_sibling() {
                // A here-document begins on the line after its command.
                let is_document = cursor.node().kind() == "heredoc_body";
                let gaps = open.last().copied().filter(|_| !is_document).unwrap_or(Gaps::Lines);
                if !between(gaps, end, cursor.node().start_byte()) {
                    return false;
                }
                break;
            }
            open.pop();
            if !cursor.goto_parent() {
                return true;
            }
        }
    }
}

/// What is between the children of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    /// Parts of a word.
    Text,
    /// Blanks of one line: a line break would end the command.
    Blanks,
    /// Blanks, line breaks and comments.
    Lines,
}

fn gaps(kind: &str) -> Gaps {
    match kind {
        "string" | "heredoc_body" => Gaps::Text,
        "command"
        | "declaration_command"
        | "unset_command"
        | "variable_assignment"
        | "variable_assignments"
        | "redirected_statement"
        | "file_redirect"
        | "herestring_redirect"
        | "heredoc_redirect"
        | "negated_command"
        | "concatenation"
        | "simple_expansion"
        | "expansion"
        | "subscript"
        | "for_statement"
        | "test_command"
        | "unary_expression"
        | "binary_expression"
        | "ternary_expression"
        | "postfix_expression"
        | "parenthesized_expression" => Gaps::Blanks,
        _ => Gaps::Lines,
    }
}

fn is_one_line(text: &str) -> bool {
    !text.contains('\n') || !text.replace("\\\n", "").contains('\n')
}

/// Whether a text separates words. An escaped line break alone joins them.
fn is_blank(text: &str) -> bool {
    if matches!(text, "" | " ") {
        return true;
    }
    let blanks = text.replace("\\\n", "");
    blanks.is_empty() == text.is_empty() && blanks.chars().all(|c| matches!(c, ' ' | '\t' | '\n'))
}

fn begins_comment(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.chars().next_back().is_none_or(|c| c.is_whitespace() || ";&|(".contains(c))
}
