//! Simple commands: a program and its words.

use pilothouse_domain::effect::{BlastRadius, Effect};

use super::options::{Argument, split};
use super::walk::{Stream, Walker};
use super::{builtin, handlers, url};
use crate::marks::{ANY, UNKNOWN, is_literal};
use crate::path::{Access, protected_effect};
use crate::tables::{
    ASKS_NETWORK, CHANGES_MACHINE, Operands, PUBLISHES, Program, USES_NETWORK, Value, find_program,
};

/// Folders whose programs have the names of the tables.
const PROGRAM_FOLDERS: &[&str] =
    &["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/opt/homebrew/bin/"];

/// Whether a target of a build or the name of a script says that it changes something elsewhere: `deploy:prod`.
fn names_deployment(target: &str) -> bool {
    const WORDS: &[&str] =
        &["deploy", "release", "publish", "production", "prod", "migrate", "rollback", "destroy"];
    target.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

impl Walker<'_> {
    pub(super) fn program(&mut self, words: &[String], input: Stream) -> Stream {
        let Some((name, rest)) = words.split_first() else { return Stream::Nothing };
        if !is_literal(name) || name.is_empty() {
            self.findings.unclassified(&format!("the program `{name}`"));
            for word in rest {
                self.check_text(word);
            }
            return Stream::Data;
        }
        if self.is_exhausted() {
            return Stream::Data;
        }
        self.count_steps(1);
        let mut name = name.as_str();
        if name.contains('/') {
            let known = PROGRAM_FOLDERS
                .iter()
                .find_map(|folder| name.strip_prefix(folder))
                .filter(|n| !n.contains('/'));
            if let Some(known) = known {
                name = known;
            } else {
                self.program_file(name, rest);
                return Stream::Data;
            }
        }
        if let Some(output) = builtin::run(self, name, rest, &input) {
            return output;
        }
        if let Some((program, used)) = find_program(name, rest) {
            self.program_call(program, name, rest.get(used..).unwrap_or_default(), input)
        } else {
            self.findings.unclassified(&format!("the program `{name}`"));
            for word in rest {
                self.check_text(word);
            }
            Stream::Data
        }
    }

    /// Runs a file. What it does depends on its content, also if this call wrote it.
    pub(super) fn program_file(&mut self, path: &str, rest: &[String]) {
        if self.has_written {
            self.findings.unclassified(&format!("the program `{path}`, after files were written"));
        }
        self.access(path, Access::Execute);
        for word in rest {
            self.check_text(word);
        }
    }

    fn program_call(&mut self, program: &Program, name: &str, words: &[String], input: Stream) -> Stream {
        if let Some(effect) = program.effect {
            let changed = self.places.changed_build_files;
            let effect = match changed.first().filter(|_| program.runs_project_code) {
                _ if program.runs_project_code && self.has_written => {
                    Effect { blast_radius: BlastRadius::Unknown, ..effect }
                }
                Some(_) => Effect { blast_radius: effect.blast_radius.max(BlastRadius::Small), ..effect },
                None => effect,
            };
            self.findings.add(effect, name);
        }
        if program.effect == Some(ASKS_NETWORK) && !words.iter().all(|word| is_literal(word)) {
            self.findings.add(USES_NETWORK, name);
        }
        if program.unpacks(words) {
            self.access(&format!("./{ANY}"), Access::Update);
        } else if self.folders.len() > 1 && program.changes_working_directory() {
            for folder in &self.folders {
                let (_, effect) = self.places.effect(folder, &format!("./{ANY}"), Access::Update);
                self.findings.add(effect, folder);
            }
        }
        if let Some(grammar) = program.grammar {
            return handlers::run(grammar, self, program, name, words, input);
        }
        let arguments = split(program, words);
        let operands: Vec<(usize, &str)> = arguments
            .iter()
            .filter_map(|argument| match argument {
                Argument::Operand(at, word) => Some((*at, *word)),
                _ => None,
            })
            .collect();
        let mut replaces_first = false;
        for argument in &arguments {
            match argument {
                Argument::Option(value, word) => {
                    replaces_first |= *value == Value::Pattern;
                    self.value(*value, word, name);
                }
                Argument::Unknown(word) => {
                    self.findings.unclassified(&format!("the option `{word}` of `{name}`"));
                    self.check_text(word);
                }
                Argument::Operand(..) => {}
            }
        }
        self.operands(program, name, words, &operands, replaces_first);
        let roots = operands.iter().map(|(_, word)| (*word).to_owned()).collect::<Vec<_>>();
        match (&program.prints, input) {
            (crate::tables::Prints::Paths, _) if roots.is_empty() => Stream::Paths(vec![".".to_owned()]),
            (crate::tables::Prints::Paths, _) => Stream::Paths(roots),
            (crate::tables::Prints::Input, input @ Stream::Paths(_)) if roots.len() <= 1 => input,
            _ => Stream::Data,
        }
    }

    fn operands(
        &mut self,
        program: &Program,
        name: &str,
        words: &[String],
        operands: &[(usize, &str)],
        skips_first: bool,
    ) {
        match program.operands {
            Operands::None => {
                if let Some((_, word)) = operands.first() {
                    self.findings.unclassified(&format!("the operand `{word}` of `{name}`"));
                }
                for (_, word) in operands {
                    self.check_text(word);
                }
            }
            Operands::First(Value::ProgramFile, _) if operands.is_empty() => {
                self.findings.unclassified(&format!("`{name}` runs its input"));
            }
            Operands::Each(value) => {
                for (_, word) in operands {
                    // It can become an option.
                    if matches!(value, Value::Text | Value::Revision)
                        && !program.any_option
                        && word.starts_with(UNKNOWN)
                    {
                        self.findings.unclassified(&format!("the operand `{word}` of `{name}`"));
                    }
                    self.value(value, word, name);
                }
            }
            Operands::First(first, rest) => {
                for (at, (_, word)) in operands.iter().enumerate() {
                    self.value(if at == 0 && !skips_first { first } else { rest }, word, name);
                }
            }
            Operands::LastIs(source, target) => {
                for (at, (_, word)) in operands.iter().enumerate() {
                    self.value(if at + 1 == operands.len() { target } else { source }, word, name);
                }
            }
            Operands::Command { skipped } => {
                for (_, word) in operands.iter().take(skipped) {
                    self.check_text(word);
                }
                if let Some((at, _)) = operands.get(skipped) {
                    self.run(words.get(*at..).unwrap_or_default(), Stream::Data);
                }
            }
        }
    }

    /// A word of which the table says what it is.
    pub(super) fn value(&mut self, value: Value, word: &str, name: &str) {
        match value {
            Value::Path(access) => {
                if word.starts_with('+') {
                    self.findings.unclassified(&format!("the option `{word}` of `{name}`"));
                }
                if word != "-" {
                    self.access(word, access);
                }
            }
            Value::Copied => {
                if word != "-" {
                    self.access(word, Access::Read);
                    self.access(word, Access::Update);
                }
            }
            Value::Url => url::access(self, word),
            Value::Revision => self.revision(word),
            Value::Resource => {
                if word.starts_with("secret") || !is_literal(word) {
                    self.findings.add(protected_effect(Access::Read), word);
                }
                self.check_text(word);
            }
            Value::Sent => {
                self.findings.add(USES_NETWORK, word);
                self.check_text(word);
            }
            Value::Mode => {
                // The file runs with the rights of its owner or group.
                let is_octal = word.chars().all(|c| c.is_digit(8));
                let is_special = if is_octal {
                    word.len() > 3 && !word.starts_with('0')
                } else {
                    word.contains(['s', 't'])
                };
                if is_special || !is_literal(word) {
                    self.findings.add(CHANGES_MACHINE, word);
                }
            }
            Value::Name | Value::Target if word.contains('=') => {
                self.findings.unclassified(&format!("the assignment `{word}` of `{name}`"));
            }
            Value::Name | Value::Text | Value::Pattern => self.check_text(word),
            Value::Target => {
                if names_deployment(word) {
                    self.findings.add(PUBLISHES, word);
                }
                for at in 0..self.folders.len() {
                    let Some(folder) = self.folders.get(at) else { break };
                    let (_, effect) = self.places.effect(folder, word, Access::Execute);
                    if effect.blast_radius > BlastRadius::Small {
                        self.findings.add(effect, word);
                    }
                }
            }
            Value::Code => self.findings.unclassified(&format!("the program in an argument of `{name}`")),
            Value::ProgramFile => self.program_file(word, &[]),
        }
    }

    /// `HEAD:.env` is the content of a file, and `.env` in `git log -p .env` too.
    fn revision(&mut self, word: &str) {
        let path = word.rsplit_once(':').map_or(word, |(_, path)| path);
        let path = path.strip_prefix("./").unwrap_or(path);
        if is_literal(word) || word.contains(':') {
            self.access(path, Access::Read);
        } else {
            self.check_text(word);
        }
    }
}
