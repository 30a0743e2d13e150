//! Redirections and here-documents of the grammar's tree.

use tree_sitter::Node;

use super::read::{Reader, children};
use crate::syntax::{Redirect, Simple, Statement};

impl Reader<'_> {
    /// A statement with redirections after it.
    pub(super) fn redirected(&mut self, node: Node<'_>) -> Option<Statement> {
        let mut body = None;
        let mut found = Simple::default();
        let mut rest = Following::None;
        let mut is_complete = false;
        for (field, child) in children(node) {
            // What follows a here-document is another command.
            if is_complete {
                return None;
            }
            is_complete = child.kind() == "heredoc_redirect";
            match child.kind() {
                "file_redirect" | "herestring_redirect" => self.redirect(child, &mut found)?,
                "heredoc_redirect" => rest = self.here_document(child, &mut found)?,
                _ if field == Some("body") => {
                    body = Some((child, self.nested(|reader| reader.statement(child))?));
                }
                _ => return None,
            }
        }
        let statement = match body {
            None => Statement::Simple(found),
            Some((body, mut statement)) => {
                attach(body, &mut statement, found)?;
                statement
            }
        };
        Some(match rest {
            Following::None => statement,
            Following::Pipeline(next) => Statement::Pipeline(vec![statement, next]),
            Following::Statement(next) => Statement::Group(vec![statement, next]),
        })
    }

    /// A redirection. Words behind its target are words of the command.
    pub(super) fn redirect(&mut self, node: Node<'_>, simple: &mut Simple) -> Option<()> {
        let children = children(node);
        let operator = children.iter().find(|(_, child)| !child.is_named())?.1.kind();
        let mut words = children.iter().filter(|(_, c)| c.is_named() && c.kind() != "file_descriptor");
        if matches!(operator, "<&-" | ">&-") {
            for (_, word) in words {
                simple.words.push(self.word(*word)?);
            }
            return Some(());
        }
        let (_, first) = words.next()?;
        let target = self.word(*first)?;
        let source = self.source(*first);
        let is_descriptor =
            matches!(operator, "<&" | ">&") && source.chars().all(|c| c.is_ascii_digit() || c == '-');
        if !is_descriptor {
            simple.redirects.push(match operator {
                "<<<" => Redirect::Text(target),
                "<" | "<&" => Redirect::Read(target),
                _ => Redirect::Write(target),
            });
        }
        let mut end = first.end_byte();
        for (_, word) in words {
            if word.start_byte() == end {
                return None;
            }
            end = word.end_byte();
            simple.words.push(self.word(*word)?);
        }
        Some(())
    }

    /// The rest of the line after `<<` and the document.
    fn here_document(&mut self, node: Node<'_>, simple: &mut Simple) -> Option<Following> {
        let mut following = Following::None;
        let mut delimiter = None;
        let mut body = None;
        let mut end = None;
        let strips_tabs = children(node).iter().any(|(_, child)| child.kind() == "<<-");
        for (field, child) in children(node) {
            match (field, child.kind()) {
                (_, "heredoc_start") => delimiter = Some(self.source(child)),
                (_, "heredoc_body") => body = Some(child),
                (_, "heredoc_end") => end = Some(self.source(child)),
                (_, "pipeline") => {
                    let mut statements = self.nested(|reader| reader.statements(child))?;
                    let next = if statements.len() == 1 { statements.pop()? } else { return None };
                    following = Following::Pipeline(next);
                }
                (Some("redirect"), _) => self.redirect(child, simple)?,
                (Some("argument"), _) => simple.words.push(self.word(child)?),
                (Some("right"), _) => {
                    following = Following::Statement(self.nested(|reader| reader.statement(child))?);
                }
                (_, "file_descriptor") => {}
                (_, kind) if !child.is_named() || kind == "\n" => {}
                _ => return None,
            }
        }
        let word = self.here_document_text(delimiter?, body?, end?, strips_tabs)?;
        simple.redirects.push(Redirect::Text(word));
        Some(following)
    }
}

/// What follows a here-document on its first line.
enum Following {
    None,
    Pipeline(Statement),
    Statement(Statement),
}

/// Adds redirections and the words behind them to the last command of a list or pipeline. The grammar adds them to the whole.
fn attach(node: Node<'_>, statement: &mut Statement, mut found: Simple) -> Option<()> {
    match (node.kind(), statement) {
        ("list", Statement::Group(statements)) | ("pipeline", Statement::Pipeline(statements)) => {
            let (_, last) = children(node).into_iter().rfind(|(_, child)| child.is_named())?;
            attach(last, statements.last_mut()?, found)
        }
        (_, Statement::Simple(simple)) => {
            simple.words.append(&mut found.words);
            simple.redirects.append(&mut found.redirects);
            Some(())
        }
        // Only a simple command takes words.
        (_, statement) if found.words.is_empty() => {
            let body = std::mem::replace(statement, Statement::Group(Vec::new()));
            *statement = Statement::Redirected(Box::new(body), found.redirects);
            Some(())
        }
        _ => None,
    }
}
