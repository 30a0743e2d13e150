//! Work for agents: a repository with a failing test, and the script of a model that makes its tests pass.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::script::{Script, ScriptError};

/// What an agent is told to do in it; the script answers to these words.
pub const TASK: &str = "make the tests pass";

/// A small calculator in Python. Its tests need `python3` and nothing else; two of its promises are broken.
///
/// It goes into an empty or new folder, as it stands in `tests/fixtures/broken-calculator`.
pub fn broken_calculator(folder: &Path) -> io::Result<()> {
    copy(&fixtures().join("broken-calculator"), folder)
}

/// The script for it: reads, runs the tests, edits, runs them again, edits, runs them until they pass, and says so. It knows the
/// tools of the native agent and of Claude Code, goes by history, and runs the tests for real: the answers do not depend on them,
/// but its edits fit only what it was told to read.
pub fn make_the_tests_pass() -> Result<Script, ScriptError> {
    Script::parse(include_str!("../../fixtures/broken-calculator.json"))
}

/// Whether the tests of a folder pass.
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
