//! Commands of the shell itself.

use super::walk::{Stream, Walker};
use crate::marks::{UNKNOWN, is_literal};
use crate::path::Access;
use crate::tables::PRINTS_VARIABLES;

/// Runs a command of the shell; `None` if the shell has no such command.
pub(super) fn run(walker: &mut Walker<'_>, name: &str, words: &[String], input: &Stream) -> Option<Stream> {
    match name {
        "cd" | "pushd" => {
            let folder = words.iter().find(|word| !matches!(word.as_str(), "-P" | "-L" | "--" | "-e"));
            let folder = folder.map_or("~", String::as_str);
            walker.access(folder, Access::List);
            walker.change_folder(if folder == "-" { "." } else { folder });
        }
        "set" if words.is_empty() => walker.findings.add(PRINTS_VARIABLES, name),
        "popd" | "dirs" | "true" | "false" | ":" | "wait" | "jobs" | "bg" | "fg" | "set" | "shopt"
        | "umask" | "ulimit" | "break" | "continue" | "return" | "exit" | "shift" | "times" | "getopts"
        | "hash" | "logout" | "disown" | "unalias" => {
            if words.iter().any(|word| !is_literal(word) || word.contains('/')) {
                walker.findings.unclassified(&format!("the words of `{name}`"));
            }
        }
        "export" | "declare" | "typeset" | "local" | "readonly" => {
            if !words.iter().any(|word| !word.starts_with('-')) {
                // Without words these print all variables.
                walker.findings.add(PRINTS_VARIABLES, name);
            }
            if words.iter().any(|word| word.starts_with('-') && word.contains('n') || !is_literal(word)) {
                walker.findings.unclassified("a variable that refers to another");
            }
            for (variable, value) in words.iter().filter_map(|word| word.split_once('=')) {
                walker.variable_effect(variable, value, true);
                walker.assign(variable, UNKNOWN.to_string());
            }
        }
        "unset" => {
            // A name of a function is the name of a program again.
            walker.functions.clear();
        }
        "printf" if words.first().is_some_and(|word| word.starts_with("-v")) => {
            let name = words.first().and_then(|word| word.strip_prefix("-v")).filter(|name| !name.is_empty());
            if let Some(name) = name.or_else(|| words.get(1).map(String::as_str)) {
                walker.assign(name, UNKNOWN.to_string());
            }
            return None;
        }
        "mapfile" | "readarray" if words.iter().any(|word| word.starts_with("-C")) => {
            walker.findings.unclassified(&format!("the command of `{name}`"));
        }
        "alias" => {
            for word in words {
                if let Some((_, command)) = word.split_once('=') {
                    walker.nested_script(command);
                }
            }
        }
        "read" | "mapfile" | "readarray" => {
            for word in words.iter().filter(|word| !word.starts_with('-')) {
                walker.assign(word, UNKNOWN.to_string());
            }
        }
        "eval" => {
            if words.iter().all(|word| is_literal(word)) {
                walker.script(&words.join(" "));
            } else {
                walker.findings.unclassified("the command of `eval`");
            }
        }
        "trap" => {
            walker.has_loops = true;
            if let Some(command) = words.first().filter(|word| !matches!(word.as_str(), "-" | "-l" | "-p")) {
                if is_literal(command) {
                    walker.script(command);
                } else {
                    walker.findings.unclassified("the command of `trap`");
                }
            }
        }
        "source" | "." => match words.first() {
            Some(path) => {
                walker.access(path, Access::Read);
                walker.program_file(path, words.get(1..).unwrap_or_default());
            }
            None => walker.findings.unclassified(name),
        },
        "exec" | "builtin" => {
            if !words.is_empty() {
                return Some(walker.run(words, input.clone()));
            }
        }
        "command" => match words.first().map(String::as_str) {
            Some("-v" | "-V") | None => {}
            Some("-p") => return Some(walker.run(words.get(1..).unwrap_or_default(), input.clone())),
            Some(_) => return Some(walker.run(words, input.clone())),
        },
        _ => return None,
    }
    Some(Stream::Nothing)
}
