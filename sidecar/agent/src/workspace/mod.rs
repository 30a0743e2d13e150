//! Limits of an agent's file tools, and the environment of its programs.
//!
//! A [`Workspace`] returns open files instead of paths. It walks a path name by name from an open folder, resolves
//! symbolic links itself, and opens no file outside the folder. If a link replaces an entry meanwhile, the access
//! fails, so there is no gap between check and use.

mod dir_entry;
mod environment;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

pub use self::dir_entry::{DirEntryHandle, DirEntryInfo, DirEntryKind};
pub use self::environment::Environment;

/// The working directory, and further folders that may be read.
#[derive(Debug)]
pub struct Workspace {
    root: Place,
    readable: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    /// Path without links.
    path: PathBuf,
    /// Path as configured.
    given: PathBuf,
    dir: OwnedFd,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path leads outside the working directory.
    #[error("{0} is outside the working directory")]
    Outside(String),
    /// The path may be read but not changed.
    #[error("{0} may only be read")]
    ReadOnly(String),
    /// The path has the wrong file type.
    #[error("{path} is {what}")]
    Kind {
        path: String,
        /// The actual type, as in "a folder".
        what: &'static str,
    },
    /// The path has too many symbolic links, perhaps in a cycle.
    #[error("{0} has too many symbolic links")]
    Links(String),
    /// A file system operation failed.
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
}

impl WorkspaceError {
    fn io(path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::Io { path: path.display().to_string(), source: source.into() }
    }

    /// Whether the path does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl From<(&Path, Errno)> for WorkspaceError {
    fn from((path, errno): (&Path, Errno)) -> Self {
        match errno {
            // A link has replaced the entry since it was checked.
            Errno::ELOOP => Self::Links(path.display().to_string()),
            _ => Self::io(path, errno),
        }
    }
}

impl Workspace {
    /// `readable` are further folders for reading. Skips missing ones.
    pub fn new(root: &Path, readable: &[PathBuf]) -> Result<Self, WorkspaceError> {
        let readable = readable.iter().filter_map(|path| Place::open(path).ok()).collect();
        Ok(Self { root: Place::open(root)?, readable })
    }

    pub fn root(&self) -> &Path {
        &self.root.path
    }

    pub fn find(&self, path: &str) -> Result<DirEntryHandle, WorkspaceError> {
        let (place, relative) = self.place(path)?;
        walk::walk(place, &relative, walk::Missing::Fails)
    }

    /// Creates missing folders.
    pub fn find_to_write(&self, path: &str) -> Result<DirEntryHandle, WorkspaceError> {
        let (place, relative) = self.place(path)?;
        if !std::ptr::eq(place, &raw const self.root) {
            return Err(WorkspaceError::ReadOnly(path.to_owned()));
        }
        walk::walk(place, &relative, walk::Missing::IsCreated)
    }

    pub fn open(&self, path: &str) -> Result<File, WorkspaceError> {
        self.find(path)?.open()
    }

    /// The folder that contains a path, and the path relative to it.
    fn place(&self, path: &str) -> Result<(&Place, PathBuf), WorkspaceError> {
        let path = Path::new(path);
        if path.is_relative() {
            return Ok((&self.root, path.to_owned()));
        }
        std::iter::once(&self.root)
            .chain(&self.readable)
            .find_map(|place| place.relative(path).map(|relative| (place, relative.to_owned())))
            .ok_or_else(|| WorkspaceError::Outside(path.display().to_string()))
    }
}

impl Place {
    fn open(given: &Path) -> Result<Self, WorkspaceError> {
        let failed = |source| WorkspaceError::io(given, source);
        let path = std::fs::canonicalize(given).map_err(failed)?;
        let dir = File::open(&path).map_err(failed)?;
        if !dir.metadata().map_err(failed)?.is_dir() {
            return Err(WorkspaceError::Kind { path: given.display().to_string(), what: "not a folder" });
        }
        Ok(Self { path, given: given.to_owned(), dir: dir.into() })
    }

    /// `None` outside this folder.
    fn relative<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given)).ok()
    }
}
