//! A command that is run in another way is never judged less strictly.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod verdict;

use proptest::prelude::*;
use verdict::{classified, verdicts};

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Ways to run any command.
const WRAPPERS: &[fn(&str) -> String] = &[
    |command| format!("sh -c {}", quoted(command)),
    |command| format!("bash -ec {}", quoted(command)),
    |command| format!("sudo sh -c {}", quoted(command)),
    |command| format!("env A=b sh -c {}", quoted(command)),
    |command| format!("echo a | xargs sh -c {}", quoted(command)),
    |command| format!("find . -name a -exec sh -c {} \\;", quoted(command)),
    |command| format!("timeout 5 nice nohup bash -c {}", quoted(command)),
    |command| format!("eval {}", quoted(command)),
    |command| format!("trap {} EXIT", quoted(command)),
    |command| format!("echo {} | sh", quoted(command)),
    |command| format!("sh <<'END_OF_TEXT'\n{command}\nEND_OF_TEXT\n"),
    |command| format!("cat <<< \"$({command}\n)\""),
    |command| format!("({command}\n)"),
    |command| format!("{{ {command}\n}}"),
    |command| format!("{command}\nls"),
    |command| format!("ls && true; {command}"),
    |command| format!("ls | while read x; do {command}\ndone"),
    |command| format!("for i in 1 2; do {command}\ndone"),
    |command| format!("if true; then {command}\nfi"),
    |command| format!("case a in *) {command}\n;; esac"),
    |command| format!("f() {{ {command}\n}}; f"),
    |command| format!("echo $({command}\n)"),
    |command| format!("echo \"a $({command}\n) b\""),
    |command| format!("diff <({command}\n) a"),
    |command| format!("x=$({command}\n)"),
    |command| format!("echo ${{x:-$({command}\n)}}"),
    |command| format!("ls $((1 + $({command}\n)))"),
];

/// Ways to run a command that consists of plain words.
const PREFIXES: &[&str] = &[
    "sudo ",
    "env ",
    "env -i A=b ",
    "nohup ",
    "time ",
    "timeout 9 ",
    "nice -n 5 ",
    "exec ",
    "command ",
    "A=b ",
    "! ",
    "true; ",
    "ls | ",
    "\\",
    "/bin/",
    "/usr/bin/",
    "2>/dev/null ",
    "echo a | xargs ",
];

fn harmful() -> Vec<&'static str> {
    include_str!("lists/harmful.txt").trim_end().split("\n\n").collect()
}

/// Harmful commands whose first word is a program and that consist of plain words.
fn plain() -> Vec<&'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " /._~-".contains(c);
    let begins = |command: &str| command.starts_with(|c: char| c.is_ascii_lowercase());
    let is_keyword = |command: &str| command.starts_with("export") || command.starts_with("exec");
    let list = harmful().into_iter();
    list.filter(|command| command.chars().all(is_plain) && begins(command) && !is_keyword(command)).collect()
}

fn no_less_strict(command: &str, wrapped: &str) -> Result<(), TestCaseError> {
    let before = verdicts(&classified(command));
    let after = verdicts(&classified(wrapped));
    let holds = before.iter().zip(&after).all(|(before, after)| after >= before);
    prop_assert!(holds, "{command:?} {before:?}\n{wrapped:?} {after:?}");
    Ok(())
}

#[test]
fn each_wrapper_keeps_each_verdict() {
    for command in harmful() {
        for wrap in WRAPPERS {
            no_less_strict(command, &wrap(command)).unwrap();
        }
    }
}

#[test]
fn each_prefix_keeps_each_verdict() {
    assert!(plain().len() > 10);
    for command in plain() {
        for prefix in PREFIXES {
            no_less_strict(command, &format!("{prefix}{command}")).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn nested_wrappers_keep_the_verdict(
        command in proptest::sample::select(harmful()),
        wrappers in proptest::collection::vec(proptest::sample::select(WRAPPERS), 1..5),
    ) {
        let wrapped = wrappers.iter().fold(command.to_owned(), |command, wrap| wrap(&command));
        no_less_strict(command, &wrapped)?;
    }

    #[test]
    fn quoting_keeps_the_verdict(command in proptest::sample::select(plain()), quotes in any::<[u8; 64]>()) {
        let letters = command.chars().zip(quotes.iter().cycle()).map(|(c, quote)| match quote % 5 {
            // A quoted `~` is no home directory, and a blank separates words.
            _ if c == ' ' || c == '~' => c.to_string(),
            0 => format!("'{c}'"),
            1 => format!("\"{c}\""),
            2 => format!("\\{c}"),
            3 => format!("\"\"{c}"),
            _ => c.to_string(),
        });
        let wrapped: String = letters.collect();
        no_less_strict(command, &wrapped)?;
    }
}
