//! The sessions of a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::entry::Header;
use super::{TreeError, file};

/// A session file, by its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Where it is.
    pub path: PathBuf,
    /// Its first line.
    pub header: Header,
    /// When it was written to last.
    pub modified: SystemTime,
}

/// The sessions of a folder, the one that was written to last first. Files that are no sessions are left out; a
/// folder that does not exist has none.
pub fn sessions(dir: &Path) -> Result<Vec<SessionSummary>, TreeError> {
    let failed = |source| TreeError::Io { path: dir.to_owned(), source };
    let listed = match fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for file in listed {
        let file = file.map_err(failed)?;
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let Ok(modified) = file.metadata().and_then(|metadata| metadata.modified()) else { continue };
        if let Ok(header) = file::peek(&path) {
            found.push(SessionSummary { path, header, modified });
        }
    }
    // Names grow with time, and decide where the file system's clock is too coarse.
    found.sort_by(|a, b| (b.modified, &b.path).cmp(&(a.modified, &a.path)));
    Ok(found)
}
