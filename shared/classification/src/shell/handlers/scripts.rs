//! Programs with a script as an argument: `sed`, `awk`, `jq`.

use super::super::options::{Argument, split};
use super::super::walk::{Stream, Walker};
use crate::marks::is_literal;
use crate::path::Access;
use crate::tables::{PRINTS_VARIABLES, Program, Value};

/// Commands of a `sed` script that run commands or use other files.
pub(crate) fn sed(
    walker: &mut Walker<'_>,
    program: &Program,
    name: &str,
    words: &[String],
    input: Stream,
) -> Stream {
    let in_place = words.iter().any(|word| {
        word.starts_with("--in-place")
            || (word.starts_with('-') && !word.starts_with("--") && word.contains('i'))
    });
    let mut has_script = false;
    let mut paths = Vec::new();
    let mut scripts = Vec::new();
    for argument in split(program, words) {
        match argument {
            Argument::Option(Value::Pattern, script) => {
                has_script = true;
                scripts.push(script);
            }
            Argument::Option(value, word) => walker.value(value, word, name),
            Argument::Operand(_, word) if !has_script => {
                has_script = true;
                scripts.push(word);
            }
            Argument::Operand(_, word) => paths.push(word),
            Argument::Unknown(word) => {
                walker.findings.unclassified(&format!("the option `{word}` of `{name}`"));
            }
        }
    }
    for script in scripts {
        if !is_plain_sed(script) {
            walker.findings.unclassified(&format!("the script `{script}` of `{name}`"));
        }
        walker.check_text(script);
    }
    for path in paths {
        walker.access(path, if in_place { Access::Update } else { Access::Read });
    }
    match input {
        Stream::Paths(_) => Stream::Data,
        other => other,
    }
}

/// Whether a script consists of addresses, `p`, `d`, `q`, `=`, `n` and substitutions without the flags `e` and `w`.
fn is_plain_sed(script: &str) -> bool {
    is_literal(script)
        && script.split([';', '\n']).all(|command| {
            let command =
                command.trim_start_matches(|c: char| c.is_ascii_digit() || " ,$!~+".contains(c)).trim();
            let command = match command.strip_prefix('/').and_then(|rest| rest.split_once('/')) {
                Some((_, rest)) => rest.trim_start_matches(['!', ' ', 'I']),
                None => command,
            };
            match command.strip_prefix(['s', 'y']) {
                Some(rest) => rest.chars().next().is_some_and(|mark| {
                    let parts = rest.replace(&format!("\\{mark}"), "");
                    let mut parts = parts.splitn(4, mark).skip(3);
                    parts.next().is_some_and(|flags| {
                        flags.trim().chars().all(|c| "gpiI".contains(c) || c.is_ascii_digit())
                    })
                }),
                None => command.chars().all(|c| "pdqnDPNGHhgx=".contains(c)),
            }
        })
}

/// `awk PROGRAM FILES`. A program that runs commands, writes files or opens sockets is unclassified.
pub(crate) fn awk(
    walker: &mut Walker<'_>,
    program: &Program,
    name: &str,
    words: &[String],
    _: Stream,
) -> Stream {
    let mut script = None;
    for argument in split(program, words) {
        match argument {
            Argument::Operand(_, word) if script.is_none() => script = Some(word),
            Argument::Operand(_, word) if word.contains('=') => walker.check_text(word),
            Argument::Operand(_, word) => walker.access(word, Access::Read),
            Argument::Option(value, word) => walker.value(value, word, name),
            Argument::Unknown(word) => {
                walker.findings.unclassified(&format!("the option `{word}` of `{name}`"));
            }
        }
    }
    let script = script.unwrap_or_default();
    let runs =
        ["system", "getline", "|", "@", "/inet", "ENVIRON", "ARGV"].iter().any(|part| script.contains(part));
    let writes =
        script.find("print").is_some_and(|at| script.get(at..).is_some_and(|rest| rest.contains('>')));
    if !is_literal(script) || runs || writes {
        walker.findings.unclassified(&format!("the script of `{name}`"));
    }
    walker.check_text(script);
    Stream::Data
}

/// `jq FILTER FILES`. A filter can read the environment and load modules.
pub(crate) fn jq(
    walker: &mut Walker<'_>,
    program: &Program,
    name: &str,
    words: &[String],
    _: Stream,
) -> Stream {
    let in_place = words.iter().any(|word| word == "-i" || word == "--inplace");
    let mut filter = None;
    for argument in split(program, words) {
        match argument {
            Argument::Operand(_, word) if filter.is_none() => filter = Some(word),
            Argument::Operand(_, word) => {
                walker.access(word, if in_place { Access::Update } else { Access::Read });
            }
            Argument::Option(value, word) => walker.value(value, word, name),
            Argument::Unknown(word) => {
                walker.findings.unclassified(&format!("the option `{word}` of `{name}`"));
                walker.check_text(word);
            }
        }
    }
    let filter = filter.unwrap_or_default();
    if !is_literal(filter) || ["import", "include", "load", "eval"].iter().any(|part| filter.contains(part)) {
        walker.findings.unclassified(&format!("the filter of `{name}`"));
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '.';
    let mut names = filter.split(|c: char| !is_name(c));
    if names.any(|name| {
        matches!(name, "env" | "$ENV" | "strenv" | "envsubst")
            || name.starts_with("$ENV.")
            || name.starts_with("env.")
    }) {
        walker.findings.add(PRINTS_VARIABLES, name);
    }
    walker.check_text(filter);
    Stream::Data
}
