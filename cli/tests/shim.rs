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
    assert!(found || std::env::var("NEXTEST_PROFILE").as_deref() != Ok("ci"), "no Python 3.11");
    if !found {
        println!("not tested: python3 is older than 3.11 or not installed");
    }
    found
}

fn check(program: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shim.py"), program).unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    std::fs::write(folder.path().join("b.txt"), "three\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    command.args(["shim", "check", "--limit", "20"]).args(more).args(["python3", "shim.py"]);
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
    let output = check(&program, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.ends_with("The shim conforms.\n"), "{text}");
    assert!(!text.contains("FAIL") && text.contains("pass  a new process resumes from the state"), "{text}");
}

/// The parts of the library that [`MISTAKES`] change.
const ORIGINALS: &str = "
from pilothouse_shim.server import Refused, Server
from pilothouse_shim.shim import Shim
emit, pause, resolve, spawn = Shim.emit, Shim._pause, Shim._resolve, Shim._spawn
";

/// Changes of the guide's shim, and the step that fails of each.
const MISTAKES: [(&str, &str); 13] = [
    ("Path.unlink = lambda self: None", "deletes the bootstrap file"),
    ("Server._is_authorized = lambda self, headers: True", "refuses requests without the token"),
    (
        "
async def hangs(self, brief):
    await asyncio.Event().wait()
Shim._spawn = hangs",
        "POST /spawn starts the agent and returns its handle",
    ),
    (
        "
async def again(self, brief):
    self._status = None
    return await spawn(self, brief)
Shim._spawn = again",
        "a second /spawn is refused with `invalid_state`",
    ),
    (
        "
async def tolerant(self, body):
    try:
        return await resolve(self, body)
    except Refused:
        return {}
Shim._resolve = tolerant",
        "an unknown decision is refused with `decision_not_found`",
    ),
    (
        "
async def fails(self, run):
    raise ValueError
LineCounter.run = fails",
        "the turn ends with `completion`; decisions are answered meanwhile",
    ),
    ("Shim._keep_checkpoint = lambda self: None", "a turn ends with a checkpoint"),
    (
        "
async def forgetful(self, body):
    return {}
Shim._replay = forgetful",
        "POST /replay repeats events with the same ids",
    ),
    (
        "
async def talkative(self, body):
    state = await pause(self, body)
    self.emit({'type': 'status', 'message': 'I go on.'})
    return state
Shim._pause = talkative",
        "POST /pause returns the state, and no event follows",
    ),
    (
        "
def skips(self, event):
    self._sequence += 1
    emit(self, event)
Shim.emit = skips",
        "events have sequences from 1 without gaps, and unique ids",
    ),
    (
        "
Run.say = lambda self, text: self.emit({'type': 'status', 'message': 5})",
        "every event is valid without repairs",
    ),
    (
        "
def recites(self, text):
    self._shim._again.append('{\"type\": \"draft\", \"kind\": \"poem\"}')
Run.say = recites",
        "every event is valid without repairs",
    ),
    (
        "
async def once(self, state):
    raise Refused(409, {'code': 'invalid_state', 'message': 'it has ended'})
Shim._resume = once",
        "a new process resumes from the state",
    ),
];

#[test]
fn mistakes_of_a_shim_are_named() {
    if !has_python() {
        return;
    }
    // Each check mostly waits.
    std::thread::scope(|scope| {
        for (mistake, step) in MISTAKES {
            scope.spawn(move || {
                let main = "if __name__";
                let program = guide().replace(main, &format!("{ORIGINALS}{mistake}\n\n{main}"));
                let output = check(&program, &["--json"]);
                assert_eq!(output.status.code(), Some(1), "{mistake}");
                let failed = failed_steps(&output);
                assert!(failed.contains(&step.to_owned()), "{mistake}: {failed:?}");
            });
        }
    });
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
