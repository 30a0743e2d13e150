//! The default id of a worker, generated once for a data folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pilothouse_wire::worker::WorkerId;
use uuid::Uuid;

const FILE: &str = "default-id";

#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct WorkerIdError {
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

/// Reads the worker id in `folder`, or generates one.
pub fn load_or_create_worker_id(folder: &Path) -> Result<WorkerId, WorkerIdError> {
    let path = folder.join(FILE);
    let found = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(folder, &path),
        Err(error) => Err(error),
    };
    found.map_err(|source| WorkerIdError { path, source })
}

fn create(folder: &Path, path: &Path) -> io::Result<WorkerId> {
    let digits = Uuid::now_v7().simple().to_string();
    // The end of a UUIDv7 is random; its beginning is the time.
    let id: WorkerId = format!("worker-{}", &digits[20..]).parse().map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    fs::write(path, id.as_str())?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_generated_id() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("workers");
        let first = load_or_create_worker_id(&folder).unwrap();
        assert_eq!(load_or_create_worker_id(&folder).unwrap(), first);
        assert_ne!(load_or_create_worker_id(dir.path()).unwrap(), first);
        fs::write(folder.join(FILE), "no name\n!").unwrap();
        assert!(load_or_create_worker_id(&folder).is_err());
    }
}
