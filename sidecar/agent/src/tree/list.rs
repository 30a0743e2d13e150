//! Lists the sessions of a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::entry::Header;
use super::{TreeError, file};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    pub path: PathBuf,
    pub header: Header,
    pub modified: SystemTime,
}

/// Latest first. Skips files that are not sessions. Empty for a missing folder.
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
    // File names sort by creation time, which decides if the file system's clock is too coarse.
    found.sort_by(|a, b| (b.modified, &b.path).cmp(&(a.modified, &a.path)));
    Ok(found)
}
