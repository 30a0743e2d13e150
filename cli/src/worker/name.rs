//! The name of a worker: given, or made once for a data folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pilothouse_wire::worker::WorkerId;
use uuid::Uuid;

/// The file that holds the name that was made.
const FILE: &str = "default-id";

/// A name that could not be made or read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct NameError {
    /// The file of the name.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub source: io::Error,
}

/// The name that `folder` keeps; a new one where there is none.
pub fn name_of(folder: &Path) -> Result<WorkerId, NameError> {
    let path = folder.join(FILE);
    let found = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(folder, &path),
        Err(error) => Err(error),
    };
    found.map_err(|source| NameError { path, source })
}

fn make(folder: &Path, path: &Path) -> io::Result<WorkerId> {
    let digits = Uuid::now_v7().simple().to_string();
    // The end of a UUIDv7 is random, its beginning the time.
    let id: WorkerId = format!("worker-{}", &digits[20..]).parse().map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    fs::write(path, id.as_str())?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_the_name_that_was_made_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("workers");
        let first = name_of(&folder).unwrap();
        assert_eq!(name_of(&folder).unwrap(), first);
        assert_ne!(name_of(dir.path()).unwrap(), first);
        fs::write(folder.join(FILE), "no name\n!").unwrap();
        assert!(name_of(&folder).is_err());
    }
}
