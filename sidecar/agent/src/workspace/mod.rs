//! Where an agent's file tools may go, and what its programs may know.
//!
//! A [`Workspace`] hands out files, never paths: a path is walked one name after the other from an open folder, symbolic
//! links are followed by hand, and nothing that would leave the folder is opened. What is exchanged for a link meanwhile
//! is refused, so that there is no moment between a check and its use.

mod environment;
mod spot;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

pub use self::environment::Environment;
pub use self::spot::{Listed, ListedKind, Spot};

/// The working directory, and folders beside it that may be read.
#[derive(Debug)]
pub struct Workspace {
    root: Place,
    readable: Vec<Place>,
}

/// A folder that is open.
#[derive(Debug)]
struct Place {
    /// Without links.
    path: PathBuf,
    /// As it was given.
    given: PathBuf,
    dir: OwnedFd,
}

/// Why a path is not opened.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It leads out.
    #[error("{0} is outside the working directory")]
    Outside(String),
    /// It may be read, but not changed.
    #[error("{0} may only be read")]
    ReadOnly(String),
    /// It is neither a file nor a folder, or not the one that was asked for.
    #[error("{path} is {what}")]
    Kind {
        /// Where.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// Its links lead in circles.
    #[error("{0} has too many symbolic links")]
    Links(String),
    /// The file system said no.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: String,
        /// What it said.
        source: std::io::Error,
    },
}

impl WorkspaceError {
    fn io(path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::Io { path: path.display().to_string(), source: source.into() }
    }

    /// Whether nothing is there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl From<(&Path, Errno)> for WorkspaceError {
    fn from((path, errno): (&Path, Errno)) -> Self {
        match errno {
            // What was a file or a folder a moment ago is a link now.
            Errno::ELOOP => Self::Links(path.display().to_string()),
            _ => Self::io(path, errno),
        }
    }
}

impl Workspace {
    /// A working directory, and folders beside it that may be read. Folders that do not exist are left out.
    pub fn new(root: &Path, readable: &[PathBuf]) -> Result<Self, WorkspaceError> {
        let readable = readable.iter().filter_map(|path| Place::open(path).ok()).collect();
        Ok(Self { root: Place::open(root)?, readable })
    }

    /// The working directory, without links.
    pub fn root(&self) -> &Path {
        &self.root.path
    }

    /// Where a path leads that is to be read.
    pub fn find(&self, path: &str) -> Result<Spot, WorkspaceError> {
        let (place, relative) = self.place(path)?;
        walk::walk(place, &relative, walk::Missing::Fails)
    }

    /// Where a path leads that is to be written; folders on the way are created.
    pub fn find_to_write(&self, path: &str) -> Result<Spot, WorkspaceError> {
        let (place, relative) = self.place(path)?;
        if !std::ptr::eq(place, &raw const self.root) {
            return Err(WorkspaceError::ReadOnly(path.to_owned()));
        }
        walk::walk(place, &relative, walk::Missing::IsCreated)
    }

    /// Opens a file to read it.
    pub fn open(&self, path: &str) -> Result<File, WorkspaceError> {
        self.find(path)?.open()
    }

    /// The folder that a path is in, and the path from there.
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

    /// The path from here to an absolute path, when that begins here.
    fn relative<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given)).ok()
    }
}
