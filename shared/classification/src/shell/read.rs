//! Turns the grammar's tree into the [syntax](crate::syntax) of a script. Each function returns `None` for a tree that no shell
//! would make of the text.

use tree_sitter::{Node, TreeCursor};

use crate::syntax::{Assignment, Piece, Simple, Statement, Word};

/// Deepest nesting of statements and words.
const MAX_DEPTH: usize = 64;

/// How a compound command in braces or in double brackets begins.
const OPENINGS: [&str; 4] = ["((", "{ ", "{\t", "{\n"];

/// Reads nodes of the tree of one text.
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    depth: usize,
}

/// The children of a node with the names of their fields.
pub(super) fn children<'n>(node: Node<'n>) -> Vec<(Option<&'n str>, Node<'n>)> {
    let mut cursor: TreeCursor<'n> = node.walk();
    let mut children = Vec::new();
    if cursor.goto_first_child() {
        loop {
            if cursor.node().kind() != "comment" {
                children.push((cursor.field_name(), cursor.node()));
            }
            if !cursor.goto_next_sibling() {
                break;
            }
        }
    }
    children
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, depth: 0 }
    }

    pub(super) fn source(&self, node: Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    pub(super) fn script(&mut self, root: Node<'_>) -> Option<Vec<Statement>> {
        self.statements(root)
    }

    /// Calls a function one level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// The statements among the children of a node.
    pub(super) fn statements(&mut self, node: Node<'_>) -> Option<Vec<Statement>> {
        let statements = children(node).into_iter().filter(|(_, child)| child.is_named());
        statements.map(|(_, child)| self.nested(|reader| reader.statement(child))).collect()
    }

    pub(super) fn statement(&mut self, node: Node<'_>) -> Option<Statement> {
        match node.kind() {
            "command" => Some(Statement::Simple(self.command(node)?)),
            "declaration_command" | "unset_command" => Some(Statement::Simple(self.declaration(node)?)),
            "variable_assignment" => {
                let assignments = vec![self.assignment(node)?];
                Some(Statement::Simple(Simple { assignments, ..Simple::default() }))
            }
            "variable_assignments" => {
                let assignments = children(node).into_iter().map(|(_, child)| self.assignment(child));
                let assignments = assignments.collect::<Option<_>>()?;
                Some(Statement::Simple(Simple { assignments, ..Simple::default() }))
            }
            "test_command" => self.test(node),
            "redirected_statement" => self.redirected(node),
            "pipeline" => Some(Statement::Pipeline(self.statements(node)?)),
            "list" => self.list(node),
            // `{}` and `{a` are words.
            "compound_statement"
                if !OPENINGS.iter().any(|opening| self.source(node).starts_with(opening)) =>
            {
                None
            }
            "compound_statement" if self.source(node).starts_with("((") => {
                Some(Statement::Expand(self.expression(node)?))
            }
            "negated_command" | "compound_statement" | "if_statement" | "elif_clause" | "else_clause"
            | "do_group" => Some(Statement::Group(self.statements(node)?)),
            "while_statement" => Some(Statement::Loop(self.statements(node)?)),
            "subshell" => Some(Statement::Subshell(self.statements(node)?)),
            "for_statement" => self.for_loop(node),
            "c_style_for_statement" => self.counting_loop(node),
            "case_statement" => self.case(node),
            "function_definition" => self.function(node),
            _ => None,
        }
    }

    /// `a && b || c`. The tree nests lists to the left; the depth does not count.
    fn list(&mut self, node: Node<'_>) -> Option<Statement> {
        let mut statements = Vec::new();
        let mut rest = Some(node);
        while let Some(list) = rest.take() {
            for (_, child) in children(list).into_iter().rev().filter(|(_, child)| child.is_named()) {
                if child.kind() == "list" && rest.is_none() && child.start_byte() == list.start_byte() {
                    rest = Some(child);
                } else {
                    statements.push(self.nested(|reader| reader.statement(child))?);
                }
            }
        }
        statements.reverse();
        Some(Statement::Group(statements))
    }

    fn command(&mut self, node: Node<'_>) -> Option<Simple> {
        let mut simple = Simple::default();
        let mut end = None;
        for (field, child) in children(node) {
            let is_redirect = matches!(child.kind(), "file_redirect" | "herestring_redirect");
            // Two words without a blank between them are one word for a shell.
            if !is_redirect && end == Some(child.start_byte()) {
                return None;
            }
            end = Some(child.end_byte());
            match child.kind() {
                "variable_assignment" if simple.words.is_empty() => {
                    simple.assignments.push(self.assignment(child)?);
                }
                _ if is_redirect => self.redirect(child, &mut simple)?,
                "subshell" => return None,
                _ if field == Some("argument") || child.kind() == "command_name" => {
                    simple.words.push(self.word(child)?);
                }
                _ => return None,
            }
        }
        Some(simple)
    }

    /// `export`, `declare`, `unset` and others: the names of assigned variables are words, too.
    fn declaration(&mut self, node: Node<'_>) -> Option<Simple> {
        let mut simple = Simple::default();
        let mut end = None;
        for (_, child) in children(node) {
            if end == Some(child.start_byte()) {
                return None;
            }
            end = Some(child.end_byte());
            if child.kind() == "variable_assignment" {
                let assignment = self.assignment(child)?;
                simple.words.push(Word(vec![Piece::Literal(assignment.name.clone())]));
                simple.assignments.push(assignment);
            } else {
                simple.words.push(self.word(child)?);
            }
        }
        Some(simple)
    }

    fn assignment(&mut self, node: Node<'_>) -> Option<Assignment> {
        let children = children(node);
        // `a= b` runs `b`.
        if children.windows(2).any(|pair| pair[0].1.end_byte() != pair[1].1.start_byte()) {
            return None;
        }
        let appends = children.iter().any(|(_, child)| child.kind() == "+=");
        let (_, name) = children.iter().find(|(field, _)| *field == Some("name"))?;
        let mut values = Vec::new();
        for (_, value) in children.iter().filter(|(field, _)| *field == Some("value")) {
            if value.kind() == "array" {
                let elements = self::children(*value).into_iter().filter(|(_, child)| child.is_named());
                let elements: Vec<_> = elements.map(|(_, element)| element).collect();
                values.extend(self.nested(|reader| reader.separate_words(&elements))?);
            } else {
                values.push(self.word(*value)?);
            }
        }
        let mut variable = self.source(*name).to_owned();
        if name.kind() == "subscript" {
            values.extend(self.expression(*name)?);
            variable.truncate(variable.find('[')?);
        } else if values.is_empty() {
            values.push(Word::default());
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_variable =
            variable.chars().all(is_name) && !variable.starts_with(|c: char| c.is_ascii_digit());
        is_variable.then_some(Assignment { name: variable, values, appends })
    }

    /// Words with blanks between them.
    fn separate_words(&mut self, nodes: &[Node<'_>]) -> Option<Vec<Word>> {
        let touch = nodes.windows(2).any(|pair| pair[0].end_byte() == pair[1].start_byte());
        if touch {
            return None;
        }
        nodes.iter().map(|node| self.word(*node)).collect()
    }

    /// `[ … ]` and `[[ … ]]`: a command whose words are those of the expression.
    fn test(&mut self, node: Node<'_>) -> Option<Statement> {
        let source = self.source(node);
        let name = if source.starts_with("[[") { "[[" } else { "[" };
        // `[a]` is a wildcard for a shell.
        if !source.strip_prefix(name)?.starts_with([' ', '\t', '\n']) {
            return None;
        }
        // In `[`, these are the shell's: `[ -f | a ]` is a pipeline.
        let is_shell = |kind: &str| match name {
            "[" => matches!(kind, "|" | "&" | "||" | "&&" | "<" | ">" | "<<" | ">>" | "(" | ")"),
            _ => matches!(kind, "|" | "&" | "<<" | ">>"),
        };
        if operators(node).any(is_shell) {
            return None;
        }
        let mut words = vec![Word(vec![Piece::Literal(name.to_owned())])];
        words.extend(self.expression(node)?);
        Some(Statement::Simple(Simple { words, ..Simple::default() }))
    }

    /// The words of an expression, in any order.
    pub(super) fn expression(&mut self, node: Node<'_>) -> Option<Vec<Word>> {
        let mut words = Vec::new();
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            for (_, child) in children(node).into_iter().rev().filter(|(_, child)| child.is_named()) {
                match child.kind() {
                    kind if is_expression(kind) => pending.push(child),
                    "redirected_statement" => return None,
                    "subscript" => words.extend(self.nested(|reader| reader.expression(child))?),
                    _ => words.push(self.nested(|reader| reader.word(child))?),
                }
            }
        }
        words.reverse();
        Some(words)
    }

    fn for_loop(&mut self, node: Node<'_>) -> Option<Statement> {
        let children = children(node);
        let field = |name: &str| {
            let name = name.to_owned();
            children.iter().filter(move |(field, _)| *field == Some(name.as_str())).map(|(_, child)| *child)
        };
        let variable = self.source(field("variable").next()?).to_owned();
        let values = self.separate_words(&field("value").collect::<Vec<_>>())?;
        let has_values = children.iter().any(|(_, child)| child.kind() == "in");
        let body = field("body").next()?;
        Some(Statement::For {
            variable,
            values: has_values.then_some(values),
            body: self.nested(|reader| reader.statements(body))?,
        })
    }

    fn counting_loop(&mut self, node: Node<'_>) -> Option<Statement> {
        let mut statements = Vec::new();
        let mut words = Vec::new();
        for (field, child) in children(node).into_iter().filter(|(_, child)| child.is_named()) {
            match (field, child.kind()) {
                (Some("body"), _) => statements.push(self.nested(|reader| reader.statement(child))?),
                (_, kind) if kind.ends_with("expression") || kind == "variable_assignment" => {
                    words.extend(self.expression(child)?);
                }
                _ => words.push(self.word(child)?),
            }
        }
        statements.push(Statement::Expand(words));
        Some(Statement::Loop(statements))
    }

    fn case(&mut self, node: Node<'_>) -> Option<Statement> {
        let mut statements = Vec::new();
        let mut words = Vec::new();
        for (field, child) in children(node).into_iter().filter(|(_, child)| child.is_named()) {
            match (field, child.kind()) {
                (Some("value"), _) => words.push(self.word(child)?),
                (_, "case_item") => {
                    for (field, child) in children(child).into_iter().filter(|(_, child)| child.is_named()) {
                        if field == Some("value") {
                            words.push(self.word(child)?);
                        } else {
                            statements.push(self.nested(|reader| reader.statement(child))?);
                        }
                    }
                }
                _ => return None,
            }
        }
        statements.insert(0, Statement::Expand(words));
        Some(Statement::Group(statements))
    }

    fn function(&mut self, node: Node<'_>) -> Option<Statement> {
        let mut name = None;
        let mut body = None;
        let mut extra = Simple::default();
        for (field, child) in children(node) {
            match field {
                Some("name") => name = Some(self.source(child).to_owned()),
                Some("body") => body = Some(self.nested(|reader| reader.statement(child))?),
                Some("redirect") => self.redirect(child, &mut extra)?,
                _ => {}
            }
        }
        if !extra.words.is_empty() {
            return None;
        }
        let mut body = body?;
        if !extra.redirects.is_empty() {
            body = Statement::Redirected(Box::new(body), extra.redirects);
        }
        Some(Statement::Function { name: name?, body: Box::new(body) })
    }
}

fn is_expression(kind: &str) -> bool {
    matches!(
        kind,
        "binary_expression"
            | "unary_expression"
            | "postfix_expression"
            | "ternary_expression"
            | "parenthesized_expression"
            | "variable_assignment"
    )
}

/// The operators of an expression.
fn operators(node: Node<'_>) -> impl Iterator<Item = &'_ str> {
    let mut found = Vec::new();
    let mut pending = vec![node];
    while let Some(node) = pending.pop() {
        for (_, child) in children(node) {
            if is_expression(child.kind()) {
                pending.push(child);
            } else if !child.is_named() {
                found.push(child.kind());
            }
        }
    }
    found.into_iter()
}
