//! A resolved file or folder.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::WorkspaceError;

/// A name in an open folder. The entry may be missing, and is not a link.
#[derive(Debug)]
pub struct DirEntryHandle {
    base: PathBuf,
    relative: PathBuf,
    dir: OwnedFd,
    /// `None` for the folder itself.
    name: Option<OsString>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntryInfo {
    pub name: OsString,
    pub kind: DirEntryKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirEntryKind {
    Folder,
    /// A symbolic link with its target.
    Link(PathBuf),
    /// Anything else.
    File,
}

impl DirEntryHandle {
    pub(super) fn new(base: PathBuf, relative: PathBuf, dir: OwnedFd, name: Option<OsString>) -> Self {
        Self { base, relative, dir, name }
    }

    /// Without links. Empty for the working directory itself.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Absolute path without links. Only for display and for tools that check it again, because an entry may have been
    /// replaced.
    pub fn path(&self) -> PathBuf {
        if self.relative.as_os_str().is_empty() { self.base.clone() } else { self.base.join(&self.relative) }
    }

    /// Does not block, as a pipe would.
    fn open_any(&self) -> Result<File, WorkspaceError> {
        let flags =
            OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        let name = self.name.clone().unwrap_or_else(|| ".".into());
        let opened = openat(&self.dir, name.as_os_str(), flags, Mode::empty());
        match opened {
            Ok(opened) => Ok(opened.into()),
            // A socket cannot be opened.
            Err(Errno::ENXIO) => Err(self.kind("neither a file nor a folder")),
            Err(errno) => Err((self.relative.as_path(), errno).into()),
        }
    }

    pub fn open(&self) -> Result<File, WorkspaceError> {
        let file = self.open_any()?;
        let kind = self.metadata(&file)?.file_type();
        match kind {
            _ if kind.is_file() => Ok(file),
            _ if kind.is_dir() => Err(self.kind("a folder")),
            _ => Err(self.kind("neither a file nor a folder")),
        }
    }

    pub fn open_dir(&self) -> Result<File, WorkspaceError> {
        let file = self.open_any()?;
        if self.metadata(&file)?.is_dir() { Ok(file) } else { Err(self.kind("not a folder")) }
    }

    pub fn is_dir(&self) -> Result<bool, WorkspaceError> {
        let file = self.open_any()?;
        Ok(self.metadata(&file)?.is_dir())
    }

    /// The folder's entries, unordered.
    pub fn read_dir(&self) -> Result<Vec<DirEntryInfo>, WorkspaceError> {
        let failed = |error| WorkspaceError::io(&self.relative, error);
        let dir = self.open_dir()?;
        // This path names the open folder, even if it was moved.
        let open = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        let listed = std::fs::read_dir(&open).or_else(|_| std::fs::read_dir(self.path())).map_err(failed)?;
        listed
            .map(|entry| {
                let entry = entry.map_err(failed)?;
                let kind = match entry.file_type().map_err(failed)? {
                    kind if kind.is_dir() => DirEntryKind::Folder,
                    kind if kind.is_symlink() => {
                        DirEntryKind::Link(std::fs::read_link(entry.path()).unwrap_or_default())
                    }
                    _ => DirEntryKind::File,
                };
                Ok(DirEntryInfo { name: entry.file_name(), kind })
            })
            .collect()
    }

    /// Writes a file atomically. An existing file keeps its permissions, and its owner if this process may set it.
    /// Returns whether the file existed.
    pub fn replace(&self, content: &[u8]) -> Result<bool, WorkspaceError> {
        self.replace_by(|file| file.write_all(content))
    }

    /// As [`Self::replace`], with the content that `write` writes. If it fails, the file keeps its old content.
    pub(super) fn replace_by(
        &self,
        write: impl FnOnce(&mut File) -> std::io::Result<()>,
    ) -> Result<bool, WorkspaceError> {
        let failed = |source| WorkspaceError::io(&self.relative, source);
        let Some(name) = &self.name else { return Err(self.kind("a folder")) };
        let old = match self.open() {
            Ok(old) => Some(self.metadata(&old)?),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
            return Err(failed(Errno::EACCES.into()));
        }
        let unfinished = format!(".{}.unfinished", uuid::Uuid::now_v7().simple());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o666);
        let file =
            openat(&self.dir, unfinished.as_str(), flags, mode).map_err(|errno| failed(errno.into()))?;
        let mut file = File::from(file);
        let written =
            write(&mut file).and_then(|()| old.as_ref().map_or(Ok(()), |old| take_attributes(&file, old)));
        let placed = written.and_then(|()| {
            renameat(&self.dir, unfinished.as_str(), &self.dir, name.as_os_str()).map_err(Into::into)
        });
        placed.map_err(|error| {
            _ = unlinkat(&self.dir, unfinished.as_str(), UnlinkatFlags::NoRemoveDir);
            failed(error)
        })?;
        Ok(old.is_some())
    }

    fn metadata(&self, file: &File) -> Result<Metadata, WorkspaceError> {
        file.metadata().map_err(|error| WorkspaceError::io(&self.relative, error))
    }

    fn kind(&self, what: &'static str) -> WorkspaceError {
        WorkspaceError::Kind { path: self.relative.display().to_string(), what }
    }
}

/// Gives a file the owner and the permissions of the file that it replaces.
fn take_attributes(file: &File, old: &Metadata) -> std::io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only root may give a file away. Others may at least give it to another of their groups.
        let given = fchown(file, Some(old.uid()), Some(old.gid()));
        _ = given.or_else(|_| fchown(file, None, Some(old.gid())));
    }
    // Follows, because a new owner clears some permissions.
    file.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))
}
