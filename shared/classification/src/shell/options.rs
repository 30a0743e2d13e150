//! Splits the words of a command into options, their values, and operands.

use crate::marks::{ANY, is_literal};
use crate::tables::{Program, Value};

/// One word of a command, as its program understands it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Argument<'w> {
    /// The value of an option.
    Option(Value, &'w str),
    /// An operand, with its position among all words.
    Operand(usize, &'w str),
    /// An option that the table does not have.
    Unknown(&'w str),
}

/// Splits the words. Stops after the first operand if the rest is a command of its own.
pub(super) fn split<'w>(program: &Program, words: &'w [String]) -> Vec<Argument<'w>> {
    let mut arguments = Vec::with_capacity(words.len());
    let mut at = 0;
    let mut options_ended = false;
    let mut is_first = true;
    while let Some(word) = words.get(at) {
        let word = word.as_str();
        let here = at;
        at += 1;
        let old_style = is_first && program.letters_first && is_literal(word) && !word.starts_with('-');
        is_first = false;
        if options_ended || word == "-" || !(word.starts_with('-') || old_style) {
            arguments.push(Argument::Operand(here, word));
            options_ended |= program.stops_at_operand;
            continue;
        }
        if word == "--" {
            options_ended = true;
            continue;
        }
        if let Some(long) =
            word.strip_prefix("--").or_else(|| word.strip_prefix('-').filter(|_| program.one_dash))
        {
            at = long_option(program, word, long, words, at, &mut arguments);
        } else {
            at = short_options(program, word, words, at, &mut arguments);
        }
    }
    arguments
}

fn long_option<'w>(
    program: &Program,
    word: &'w str,
    long: &'w str,
    words: &'w [String],
    mut at: usize,
    arguments: &mut Vec<Argument<'w>>,
) -> usize {
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    if let Some(kind) = program.value_of(name) {
        if let Some(value) = value.or_else(|| words.get(at).map(String::as_str)) {
            arguments.push(Argument::Option(kind, value));
        }
        at += usize::from(value.is_none());
    } else if program.has_long(name) {
        if let Some(value) = value {
            arguments.push(Argument::Option(Value::Text, value));
        }
    } else if program.any_option && is_literal(name) {
        arguments.push(Argument::Option(Value::Text, word));
    } else {
        arguments.push(Argument::Unknown(word));
    }
    at
}

fn short_options<'w>(
    program: &Program,
    word: &'w str,
    words: &'w [String],
    mut at: usize,
    arguments: &mut Vec<Argument<'w>>,
) -> usize {
    let letters = word.strip_prefix('-').unwrap_or(word);
    for (index, letter) in letters.char_indices() {
        if let Some(kind) = program.value_of_letter(letter) {
            let rest = letters.get(index + letter.len_utf8()..).unwrap_or_default();
            if word.starts_with('-') && !rest.is_empty() {
                arguments.push(Argument::Option(kind, rest));
                return at;
            }
            if let Some(value) = words.get(at) {
                arguments.push(Argument::Option(kind, value));
            }
            at += 1;
            if rest.is_empty() {
                return at;
            }
        } else if !(program.flags.contains(letter)
            || program.flags.contains('#') && (letter.is_ascii_digit() || letter == ANY))
        {
            if program.any_option && is_literal(word) {
                arguments.push(Argument::Option(Value::Text, word));
            } else {
                arguments.push(Argument::Unknown(word));
            }
            return at;
        }
    }
    at
}
