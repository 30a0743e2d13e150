//! Which commands a person is asked about. The lists contain one command a paragraph.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod verdict;

use pilothouse_classification::Classification;
use verdict::{asks, classified};

fn commands(list: &str) -> impl Iterator<Item = (&str, Classification)> {
    list.trim_end().split("\n\n").map(|command| (command, classified(command)))
}

#[test]
fn harmful_commands_ask() {
    let list = commands(include_str!("lists/harmful.txt"));
    let allowed: Vec<_> = list.filter(|(_, classification)| !asks(classification)).collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
}

#[test]
fn harmless_commands_are_allowed() {
    let list = commands(include_str!("lists/harmless.txt"));
    let asked: Vec<_> = list.filter(|(_, classification)| asks(classification)).collect();
    assert!(asked.is_empty(), "{asked:#?}");
}
