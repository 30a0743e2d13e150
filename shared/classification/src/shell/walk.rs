//! Visits the commands of a script.

use std::collections::{HashMap, HashSet};

use super::parse::parse;
use crate::findings::Collector;
use crate::marks::{ANY, UNKNOWN};
use crate::path::{Access, BaseFolders};
use crate::syntax::{Redirect, Simple, Statement, Word};

/// Commands whose assignments last.
const DECLARATIONS: &[&str] = &["export", "declare", "local", "readonly", "typeset"];

/// Maximum number of values of a variable that are distinguished.
const MAX_VALUES: usize = 16;
/// Maximum number of working directories that are distinguished.
const MAX_FOLDERS: usize = 8;
/// Maximum depth of scripts in scripts: `sh -c "sh -c …"`.
const MAX_NESTING: usize = 8;
/// Maximum depth of programs that run each other: `env env …`.
const MAX_CALLS: usize = 12;
/// Maximum number of steps for a call. A step expands a part of a word, looks up a program or a path, or is one of the parser's.
pub(super) const MAX_STEPS: usize = 8_000;

/// What a command reads from its standard input.
#[derive(Debug, Clone, Default)]
pub(crate) enum Stream {
    /// The terminal or nothing.
    #[default]
    Nothing,
    /// Data that is unknown.
    Data,
    /// Paths, one a line.
    Paths(Vec<String>),
    /// A text that the call contains.
    Text(String),
}

/// Inspects scripts. Variables and working directories keep all values that they get anywhere in the script, so branches and loops
/// need no order.
pub(crate) struct Walker<'a> {
    pub(super) places: &'a BaseFolders<'a>,
    pub(super) findings: &'a mut Collector,
    pub(super) variables: HashMap<String, Vec<String>>,
    pub(super) folders: Vec<String>,
    /// Functions that are defined whenever later commands run.
    pub(super) functions: HashSet<String>,
    /// Whether an earlier command has written a file whose content may be code.
    pub(super) has_written: bool,
    pub(super) steps: usize,
    nesting: usize,
    calls: usize,
    /// Open lists, branches and loops.
    conditions: usize,
    /// Whether a part of the script can run after later parts: a loop, a function, a trap.
    pub(super) has_loops: bool,
}

impl<'a> Walker<'a> {
    pub(super) fn new(places: &'a BaseFolders<'a>, findings: &'a mut Collector) -> Self {
        Self {
            places,
            findings,
            variables: HashMap::new(),
            folders: vec![places.workspace.to_owned()],
            functions: HashSet::new(),
            has_written: false,
            steps: 0,
            nesting: 0,
            calls: 0,
            conditions: 0,
            has_loops: false,
        }
    }

    /// Counts steps. A call that needs too many is unclassified, and its rest is not inspected.
    pub(super) fn count_steps(&mut self, steps: usize) {
        if self.steps <= MAX_STEPS && self.steps + steps > MAX_STEPS {
            self.findings.unclassified("a command that is too complex");
        }
        self.steps += steps;
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.steps > MAX_STEPS
    }

    /// Inspects the command of a call.
    pub(super) fn command(&mut self, text: &str) {
        if let Some(statements) = self.parse(text) {
            self.inspect(|walker| walker.statements(&statements));
        }
    }

    /// Inspects a script in the current shell.
    pub(super) fn script(&mut self, text: &str) {
        if self.nesting >= MAX_NESTING {
            self.findings.unclassified("scripts that are nested too deeply");
            return;
        }
        self.nesting += 1;
        if let Some(statements) = self.parse(text) {
            self.statements(&statements);
        }
        self.nesting -= 1;
    }

    fn parse(&mut self, text: &str) -> Option<Vec<Statement>> {
        if self.is_exhausted() {
            return None;
        }
        match parse(text) {
            Ok(script) => {
                self.count_steps(1 + script.steps);
                Some(script.statements)
            }
            Err(reason) => {
                self.findings.unclassified(&reason.to_string());
                self.check_text(text);
                None
            }
        }
    }

    /// Inspects a script in a subshell.
    pub(super) fn nested_script(&mut self, text: &str) {
        self.inspect_subshell(|walker| walker.script(text));
    }

    pub(super) fn in_subshell(&mut self, script: &[Statement]) {
        self.inspect_subshell(|walker| walker.statements(script));
    }

    /// Inspects commands of a subshell. Its changes of folders, variables and functions do not affect the caller.
    fn inspect_subshell(&mut self, inspect: impl FnMut(&mut Self)) {
        self.count_steps(self.variables.len() / 4);
        let folders = self.folders.clone();
        let variables = self.variables.clone();
        let functions = self.functions.clone();
        self.inspect(inspect);
        self.folders = folders;
        self.variables = variables;
        self.functions = functions;
    }

    /// Inspects the script of one shell. A loop, a function or a trap can use values that later commands assign, so such a script is
    /// inspected twice.
    fn inspect(&mut self, mut inspect: impl FnMut(&mut Self)) {
        let outer = std::mem::take(&mut self.has_loops);
        inspect(self);
        if self.has_loops && (!self.variables.is_empty() || self.folders.len() > 1) {
            inspect(self);
        }
        self.has_loops |= outer;
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            self.statement(statement, Stream::Nothing);
        }
    }

    fn statement(&mut self, statement: &Statement, input: Stream) -> Stream {
        if self.is_exhausted() {
            return Stream::Data;
        }
        self.count_steps(1);
        match statement {
            Statement::Simple(simple) => return self.simple(simple, input),
            Statement::Pipeline(commands) => {
                let mut output = input;
                for command in commands {
                    let input = std::mem::take(&mut output);
                    self.inspect_subshell(|walker| output = walker.statement(command, input.clone()));
                }
                return output;
            }
            Statement::Group(statements) | Statement::Loop(statements) => {
                self.has_loops |= matches!(statement, Statement::Loop(_));
                self.conditions += 1;
                self.statements(statements);
                self.conditions -= 1;
            }
            Statement::Subshell(statements) => self.in_subshell(statements),
            Statement::For { variable, values, body } => self.for_loop(variable, values.as_deref(), body),
            Statement::Function { name, body } => {
                self.has_loops = true;
                if self.conditions == 0 {
                    self.functions.insert(name.clone());
                }
                self.statement(body, Stream::Data);
            }
            Statement::Expand(words) => {
                for word in words {
                    self.alternatives(word);
                }
            }
            Statement::Redirected(body, redirects) => {
                self.statement(body, Stream::Data);
                for redirect in redirects {
                    self.redirect(redirect);
                }
            }
        }
        Stream::Data
    }

    fn for_loop(&mut self, variable: &str, values: Option<&[Word]>, body: &[Statement]) {
        self.has_loops = true;
        let words: Vec<String> =
            values.unwrap_or_default().iter().flat_map(|word| self.words(word)).collect();
        for value in words {
            self.assign(variable, value);
        }
        if values.is_none() {
            self.assign(variable, UNKNOWN.to_string());
        }
        self.conditions += 1;
        self.statements(body);
        self.conditions -= 1;
    }

    /// Assignments, redirections and the program of a simple command.
    fn simple(&mut self, simple: &Simple, mut input: Stream) -> Stream {
        let mut words = Vec::new();
        for (at, word) in simple.words.iter().enumerate() {
            if self.is_exhausted() {
                return Stream::Data;
            }
            let values = self.words(word);
            // A variable with several values: each could be the program.
            if at == 0 && values.len() > 1 {
                words.push(UNKNOWN.to_string());
            }
            words.extend(values);
        }
        // Assignments before a program are for this program only, and not for its words.
        let lasts = words.first().is_none_or(|name| DECLARATIONS.contains(&name.as_str()));
        let before = (!lasts && !simple.assignments.is_empty()).then(|| self.variables.clone());
        // `IFS= read line` changes how this line is split, and nothing else.
        let splits_input = words.first().is_some_and(|name| name == "read");
        for assignment in &simple.assignments {
            if splits_input && assignment.name == "IFS" {
                for word in &assignment.values {
                    self.alternatives(word);
                }
            } else {
                self.assignment(assignment, !simple.words.is_empty());
            }
        }
        let output = self.redirected(simple, &words, &mut input);
        if let Some(before) = before {
            self.variables = before;
        }
        output
    }

    fn redirected(&mut self, simple: &Simple, words: &[String], input: &mut Stream) -> Stream {
        for redirect in &simple.redirects {
            if let Redirect::Text(text) = redirect {
                *input = Stream::Text(self.text(text));
            }
        }
        let is_function = words.first().is_some_and(|name| self.functions.contains(name));
        let output = match words.is_empty() {
            true => Stream::Nothing,
            false if is_function => Stream::Data,
            false => self.run(words, std::mem::take(input)),
        };
        // A file that this command writes is not one that it runs.
        for redirect in &simple.redirects {
            if !matches!(redirect, Redirect::Text(_)) {
                self.redirect(redirect);
            }
        }
        output
    }

    /// Runs a program with its words. Returns what it prints.
    pub(super) fn run(&mut self, words: &[String], input: Stream) -> Stream {
        if self.calls >= MAX_CALLS {
            self.findings.unclassified("programs that run each other");
            return Stream::Data;
        }
        self.calls += 1;
        let output = self.program(words, input);
        self.calls -= 1;
        output
    }

    /// Adds a value to a variable.
    pub(super) fn assign(&mut self, name: &str, value: String) {
        // A branch that assigns a variable can be left out.
        let is_new = self.conditions > 0 && !self.variables.contains_key(name);
        let values = self.variables.entry(name.to_owned()).or_default();
        if is_new {
            values.push(String::new());
        }
        if !values.contains(&value) {
            values.push(value);
        }
        if values.len() > MAX_VALUES {
            *values = vec![UNKNOWN.to_string()];
        }
    }

    /// Adds a working directory. The earlier ones stay possible: the change can fail or be skipped.
    pub(super) fn change_folder(&mut self, path: &str) {
        let known = self.folders.clone();
        for folder in known {
            let next = self.places.locate(&folder, path).0;
            if !self.folders.contains(&next) {
                self.folders.push(next);
            }
        }
        if self.folders.len() > MAX_FOLDERS {
            self.folders.truncate(MAX_FOLDERS);
            self.findings.unclassified("a script with too many working directories");
        }
    }

    /// An access to a file, from each possible working directory.
    pub(super) fn access(&mut self, path: &str, access: Access) {
        for at in 0..self.folders.len() {
            if self.is_exhausted() {
                return;
            }
            // Wildcards are compared with each protected name.
            self.count_steps(1 + path.len() / if path.contains(ANY) { 8 } else { 64 });
            let Some(folder) = self.folders.get(at) else { break };
            self.has_written |= self.findings.access(self.places, folder, path, access);
        }
    }

    /// Checks whether a text that is no path names a secret file.
    pub(super) fn check_text(&mut self, text: &str) {
        if self.is_exhausted() {
            return;
        }
        self.count_steps(1 + text.len() / 64);
        if self.places.mentions_secret(text) {
            self.findings.add(crate::path::protected_effect(Access::Read), text);
        }
    }
}
