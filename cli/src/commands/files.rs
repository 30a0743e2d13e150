//! Reads the files that arguments name.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::CliError;

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> CliError {
    move |source| CliError::File { path: path.to_owned(), source }
}

/// The absolute path, which the server needs. The path must exist.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(file_error(path))
}

/// Reads a script, which is sent inline: the server may be on another machine, and errors are reported earlier.
pub(super) fn read_json(path: &Path) -> Result<Value, CliError> {
    let bytes = std::fs::read(path).map_err(file_error(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|e| CliError::Usage(format!("{} is not JSON: {e}", path.display())))
}

pub(super) fn read_input() -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(file_error(Path::new("standard input")))?;
    Ok(text.trim().to_owned())
}
