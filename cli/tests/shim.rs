//! `pilothouse shim check` on the shim of the guide, and on shims with mistakes.

#![allow(clippy::unwrap_used)] // a helper of a test may fail as the test does

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The program in `docs/writing-a-shim.md`.
fn guide() -> String {
    let page = std::fs::read_to_string(root().join("docs/writing-a-shim.md")).unwrap();
    let (_, rest) = page.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// The library needs Python 3.11.
fn has_python() -> bool {
    let script = "import sys; sys.exit(sys.version_info < (3, 11))";
    let found = Command::new("python3").args(["-c", script]).status().is_ok_and(|status| status.success());
    if !found {
        println!("not tested: python3 is older than 3.11 or not installed");
    }
    found
}

fn check(program: &str, json: bool) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shim.py"), program).unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    std::fs::write(folder.path().join("b.txt"), "three\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    if json {
        command.arg("--json");
    }
    command.args(["shim", "check", "--limit", "20", "python3", "shim.py"]);
    command.current_dir(folder.path()).env("PYTHONPATH", root().join("sidecar/shims/python"));
    command.output().unwrap()
}

fn failed_steps(output: &Output) -> Vec<String> {
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let failed = findings.iter().filter(|finding| finding["result"] == "failed");
    failed.map(|finding| finding["step"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn shim_of_the_guide_conforms() {
    if !has_python() {
        return;
    }
    let program = guide();
    let lines = program.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 65, "the guide promises a short program: {lines} lines");
    let output = check(&program, false);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.ends_with("The shim conforms.\n"), "{text}");
    assert!(!text.contains("FAIL") && text.contains("pass  a new process resumes from the state"), "{text}");
}

#[test]
fn mistakes_of_a_shim_are_named() {
    if !has_python() {
        return;
    }
    for (mistake, step) in [
        // It does not end its turn.
        ("Agent.run = None", "the turn ends with `completion`; decisions are answered meanwhile"),
        ("Shim._keep_checkpoint = lambda self: None", "a turn ends with a checkpoint"),
        ("Server._is_authorized = lambda self, headers: True", "refuses requests without the token"),
        ("Shim.emit = doubled", "events have sequences from 1 without gaps, and unique ids"),
        ("Path.unlink = lambda self: None", "deletes the bootstrap file"),
    ] {
        let patched = format!(
            "from pathlib import Path\nfrom pilothouse_shim.server import Server\nfrom pilothouse_shim.shim import Shim\n\
             emit = Shim.emit\n\
             def doubled(self, event):\n    self._sequence += 1\n    emit(self, event)\n\
             {}\n{}",
            if mistake.starts_with("Agent") { "" } else { mistake },
            guide().replace(
                "return f\"{sum",
                if mistake.starts_with("Agent") { "raise ValueError  # " } else { "return f\"{sum" }
            ),
        );
        let output = check(&patched, true);
        assert_eq!(output.status.code(), Some(1), "{mistake}");
        assert!(failed_steps(&output).contains(&step.to_owned()), "{mistake}: {:?}", failed_steps(&output));
    }
}

#[test]
fn program_that_is_no_shim_fails_with_its_last_words() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    command.args(["shim", "check", "sh", "-c", "echo no shim >&2; exit 4"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("exit status: 4") && text.contains("no shim"), "{text}");
}
