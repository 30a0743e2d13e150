//! Compares the words that the classification finds with those that bash passes to a program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod verdict;

use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use verdict::{asks, classified};

/// Scripts that are changed at random. Their only program is `cat`.
const SCRIPTS: &[&str] = &[
    "cat a1 'b 2' \"c$x\"",
    "x=a1; cat $x/b2 \"${x}c3\"",
    "for x in a1 b2; do cat $x; done",
    "cat {a1,b2}/c3",
    "x='a1 b2'; cat $x \"$x\"",
    "cat $'a\\nb' a\\ b",
    "y=a1/b2.txt; cat ${y%.txt} ${y##*/}",
    "cat < a1 > f b2",
    "if [ -f a1 ]; then cat a1; else cat b2; fi",
    "cat a1 | cat b2 - && cat c3",
    "cat ${z:-a1} ${x:+b2}",
    "x=(a1 b2); cat ${x[@]} ${x[0]}",
    "cat \"a1\"'b2'c3\\d4",
    "cat <<E a1\n$x\nE\ncat b2",
    "f() { cat \"$1\"; }; f a1",
    "x=a1; x+=b2; cat $x",
    "cat a1 # b2\ncat c3",
    "cat \"$(echo a1)\" `echo b2`",
    "x=a1 cat $x b2",
    "eval 'cat a1 \"b2 c3\"'",
    "cat a1; (x=b2; cat $x); cat $x",
    "case a1 in a1) cat b2;; *) cat c3;; esac",
];

/// Texts that are inserted. None names a program or a folder.
const PARTS: &[&str] = &[
    "cat a1",
    "cat b2",
    "a1",
    "b2",
    "c3",
    " ",
    "\t",
    "\n",
    ";",
    "\n",
    "&&",
    "|",
    "(",
    ")",
    "{ ",
    "; }",
    "$(echo e5)",
    "`echo f6`",
    "\"",
    "'",
    "\\",
    "\\\n",
    "#",
    " #",
    "$x",
    "${x}",
    "${x:-g7}",
    "${x%1}",
    "x=a1;",
    "<<E\n",
    "\nE\n",
    "<<<",
    ">f",
    "<",
    "2>&1",
    "[[ ",
    "]] ",
    "[ ",
    " ]",
    "$((1+2))",
    "if true; then ",
    " fi",
    "for x in a1 b2;",
    " do ",
    " done",
    " ;; esac",
    "! ",
    "$'",
    "$\"",
    "{a1,b2}",
    "{1..2}",
    "x+=z",
    "$",
    "\\'",
    "\\\"",
    "\\`",
    "\\$",
    "{",
    "}",
    "[",
    "]",
    "%",
    "^",
    "=",
    ",",
    "é",
    "${x:+h8}",
];

/// Runs a script in a folder without programs. Returns the arguments of each `cat`.
fn arguments_in_bash(script: &str, folder: &Path) -> Vec<String> {
    let log = folder.join("log");
    std::fs::write(&log, "").unwrap();
    let status = Command::new("/bin/bash")
        .args(["--norc", "-c"])
        .arg("command_not_found_handle() { :; }; cat() { printf '%s\\0' \"$@\" >> \"$LOG\"; }; eval \"$1\"")
        .args(["bash", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/nonexistent")
        .env("LOG", &log)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("bash is installed");
    let text = std::fs::read(&log).unwrap();
    text.split(|byte| *byte == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

/// Whether a text matches a subject, in which `*` and `…` match any characters.
fn matches(subject: &str, text: &str) -> bool {
    let mut parts = subject.split(['*', '…']);
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_argument_in_an_allowed_script_is_found(
        script in proptest::sample::select(SCRIPTS),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), prop::option::weighted(0.8, prop::sample::select(PARTS))), 0..4),
    ) {
        let mut script = script.to_owned();
        for (at, part) in changes {
            let at = script.char_indices().map(|(at, _)| at).nth(at.index(script.chars().count().max(1))).unwrap_or(0);
            match part {
                Some(part) => script.insert_str(at, part),
                None if !script.is_empty() => {
                    script.remove(at);
                }
                None => {}
            }
        }
        let classification = classified(&script);
        if asks(&classification) {
            return Ok(());
        }
        let folder = tempfile::tempdir().unwrap();
        for argument in arguments_in_bash(&script, folder.path()) {
            let is_found = argument.is_empty()
                || argument.starts_with('-')
                || classification.findings.iter().any(|finding| matches(&finding.subject, &argument));
            prop_assert!(is_found, "{script:?} passes {argument:?}: {:?}", classification.findings);
        }
    }
}
