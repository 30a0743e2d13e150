//! Programs whose words have a grammar of their own.

mod find;
mod scripts;

use super::options::{Argument, split};
use super::walk::{Stream, Walker};
use crate::marks::{ANY, UNKNOWN, is_literal};
use crate::path::Access;
use crate::tables::{Grammar, PRINTS_VARIABLES, Program};

/// Inspects the words of a program.
pub(super) fn run(
    grammar: Grammar,
    walker: &mut Walker<'_>,
    program: &Program,
    name: &str,
    words: &[String],
    input: Stream,
) -> Stream {
    let inspect = match grammar {
        Grammar::Awk => scripts::awk,
        Grammar::Env => env,
        Grammar::Find => find::find,
        Grammar::Jq => scripts::jq,
        Grammar::Sed => scripts::sed,
        Grammar::Shell => shell,
        Grammar::Xargs => xargs,
    };
    inspect(walker, program, name, words, input)
}

/// `sh -c COMMAND`, `sh FILE`, and scripts on the standard input.
fn shell(walker: &mut Walker<'_>, _: &Program, name: &str, words: &[String], input: Stream) -> Stream {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            walker.access(word, Access::Read);
            walker.program_file(word, words.as_slice());
            return Stream::Data;
        };
        if matches!(word.as_str(), "--login" | "--posix" | "--norc" | "--noprofile") {
            continue;
        }
        if letters.starts_with('-') || letters.chars().any(|c| !"cefluxv".contains(c)) {
            walker.findings.unclassified(&format!("the option `{word}` of `{name}`"));
            return Stream::Data;
        }
        if letters.contains('c') {
            match words.next() {
                Some(script) if is_literal(script) => walker.nested_script(script),
                _ => walker.findings.unclassified(&format!("the command of `{name}`")),
            }
            return Stream::Data;
        }
    }
    match input {
        Stream::Text(script) if is_literal(&script) => walker.nested_script(&script),
        _ => walker.findings.unclassified(&format!("`{name}` runs its input")),
    }
    Stream::Data
}

/// `xargs COMMAND`: the operands of the command come from the input.
fn xargs(walker: &mut Walker<'_>, program: &Program, name: &str, words: &[String], input: Stream) -> Stream {
    let mut replaced = None;
    let mut start = None;
    for argument in split(program, words) {
        match argument {
            Argument::Unknown(word) => {
                walker.findings.unclassified(&format!("the option `{word}` of `{name}`"));
            }
            Argument::Option(crate::tables::Value::Pattern, word) => replaced = Some(word.to_owned()),
            Argument::Option(value, word) => walker.value(value, word, name),
            Argument::Operand(at, _) => {
                start = Some(at);
                break;
            }
        }
    }
    let operands: Vec<String> = match input {
        Stream::Paths(roots) => roots.iter().map(|root| format!("{root}/{ANY}")).collect(),
        _ => vec![UNKNOWN.to_string()],
    };
    let Some(start) = start else { return Stream::Data };
    let mut command: Vec<String> = words.get(start..).unwrap_or_default().to_vec();
    match replaced {
        Some(mark) => {
            let operand = operands.first().cloned().unwrap_or_default();
            for word in &mut command {
                *word = word.replace(&mark, &operand);
            }
        }
        None => command.extend(operands),
    }
    walker.run(&command, Stream::Nothing)
}

/// `env NAME=VALUE COMMAND`; without a command it prints all variables.
fn env(walker: &mut Walker<'_>, _: &Program, name: &str, words: &[String], input: Stream) -> Stream {
    let mut is_name = false;
    for (at, word) in words.iter().enumerate() {
        if std::mem::take(&mut is_name) {
            continue;
        }
        if word == "-u" {
            is_name = true;
            continue;
        }
        if matches!(word.as_str(), "-i" | "-" | "-0" | "--ignore-environment" | "--null") {
            continue;
        }
        if word.starts_with('-') {
            walker.findings.unclassified(&format!("the option `{word}` of `{name}`"));
            return Stream::Data;
        }
        match word.split_once('=') {
            Some((variable, value)) => walker.variable_effect(variable, value, true),
            None => return walker.run(words.get(at..).unwrap_or_default(), input),
        }
    }
    walker.findings.add(PRINTS_VARIABLES, name);
    Stream::Data
}
