//! A task for agents: a repository with failing tests, and a model's script that makes them pass.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::script::{Script, ScriptError};

/// The script matches this text.
pub const TASK: &str = "make the tests pass";

/// Creates a small calculator in Python with two bugs. Its tests need only `python3`.
///
/// The folder must be empty or new. The files come from `tests/fixtures/broken-calculator`.
pub fn broken_calculator(folder: &Path) -> io::Result<()> {
    copy(&fixtures().join("broken-calculator"), folder)
}

/// The script for the task: it reads files, runs the tests, edits, and repeats that until they pass. It knows the
/// tools of the native agent and of Claude Code, and its progress follows the history. The tests really run, but the
/// replies do not depend on their results; the edits fit only the files that the prompt names.
pub fn make_the_tests_pass() -> Result<Script, ScriptError> {
    Script::parse(include_str!("../../fixtures/broken-calculator.json"))
}

pub fn tests_pass(folder: &Path) -> io::Result<bool> {
    let mut tests = Command::new("python3");
    Ok(tests.args(["-B", "-m", "unittest", "-q"]).current_dir(folder).output()?.status.success())
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_name() == "__pycache__" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
