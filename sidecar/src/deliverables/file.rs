//! The status file: `.pilothouse/status.json` in the working directory (S4, decision 39).
//!
//! Every step works relative to file descriptors, beginning at the working directory, and follows no links, so that
//! nobody can redirect the file, not even between two steps. Writes replace the file by a rename. Changes hold a lock
//! on the folder, because two sessions may share a working directory.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use pilothouse_domain::deliverable::{Day, DeliverableStatus};

use super::repository::{DeliverableRepository, DeliverableStatusReader, RepositoryError};
use crate::clock;

/// Folder below the working directory.
pub const FOLDER: &str = ".pilothouse";
pub const FILE: &str = "status.json";
/// Temporary name of a new version before the rename.
const NEW: &str = "status.json.new";
/// Limit for reading, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// How long to wait for another process that changes the file.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Clone)]
pub struct StatusFile {
    working_directory: PathBuf,
}

impl StatusFile {
    /// The directory need not exist.
    pub fn of(working_directory: &Path) -> Self {
        Self { working_directory: working_directory.to_owned() }
    }

    pub fn path(&self) -> PathBuf {
        self.working_directory.join(FOLDER).join(FILE)
    }

    /// Changes the content while no other process can. Writes nothing if `change` fails.
    pub fn change<T, E: From<RepositoryError>>(
        &self,
        change: impl FnOnce(&mut DeliverableStatus) -> Result<T, E>,
    ) -> Result<(DeliverableStatus, T), E> {
        let folder = self.folder(true)?.ok_or_else(|| self.at(FOLDER, Errno::ENOENT))?;
        let folder = self.locked(folder)?;
        let mut status = self.load_from(&folder)?.unwrap_or_else(empty);
        let made = change(&mut status)?;
        self.save_to(&folder, &status)?;
        Ok((status, made))
    }

    /// Opens the folder. `None` if it does not exist and `make` is not set.
    fn folder(&self, make: bool) -> Result<Option<File>, RepositoryError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let failed = |e| self.at("", e);
        let root = open(&self.working_directory, flags, Mode::empty()).map_err(failed)?;
        if make {
            match mkdirat(&root, FOLDER, Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(e) => return Err(self.at(FOLDER, e)),
            }
        }
        match openat(&root, FOLDER, flags | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(folder) => Ok(Some(folder.into())),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ENOTDIR | Errno::ELOOP) => Err(RepositoryError::NotConfined {
                path: self.working_directory.join(FOLDER),
                expected: "a folder",
            }),
            Err(e) => Err(self.at(FOLDER, e)),
        }
    }

    fn locked(&self, folder: File) -> Result<Flock<File>, RepositoryError> {
        let deadline = Instant::now() + LOCK_LIMIT;
        let mut folder = folder;
        loop {
            match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
                Ok(locked) => return Ok(locked),
                Err((_, Errno::EWOULDBLOCK)) if Instant::now() >= deadline => {
                    return Err(RepositoryError::Busy(self.path()));
                }
                Err((back, Errno::EWOULDBLOCK)) => folder = back,
                Err((_, e)) => return Err(self.at(FOLDER, e)),
            }
            sleep(LOCK_PAUSE);
        }
    }

    fn load_from(&self, folder: &File) -> Result<Option<DeliverableStatus>, RepositoryError> {
        // Non-blocking, because opening a named pipe would wait for a writer.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match openat(folder, FILE, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => return Err(self.not_a_file()),
            Err(e) => return Err(self.at(FILE, e)),
        };
        let io = |source| RepositoryError::Io { path: self.path(), source };
        if !file.metadata().map_err(io)?.is_file() {
            return Err(self.not_a_file());
        }
        let broken = |why: String| RepositoryError::Broken { path: self.path(), why };
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(io)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(broken(format!("it has more than {MAX_BYTES} bytes")));
        }
        serde_json::from_slice(&text).map(Some).map_err(|e| broken(e.to_string()))
    }

    fn save_to(&self, folder: &File, status: &DeliverableStatus) -> Result<(), RepositoryError> {
        let io = |source| RepositoryError::Io { path: self.path(), source };
        self.replaceable(folder)?;
        let mut text = serde_json::to_vec_pretty(status).map_err(|e| io(e.into()))?;
        text.push(b'\n');
        // A process may have died before the rename. Removes whatever has this name.
        match unlinkat(folder, NEW, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(e) => return Err(self.at(NEW, e)),
        }
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let new = openat(folder, NEW, flags, Mode::from_bits_truncate(0o644)).map_err(|e| self.at(NEW, e))?;
        let mut new = File::from(new);
        new.write_all(&text).and_then(|()| new.sync_all()).map_err(io)?;
        renameat(folder, NEW, folder, FILE).map_err(|e| self.at(FILE, e))?;
        folder.sync_all().map_err(io)
    }

    /// Refuses a link or another file type: a rename would replace it, and its content was never read.
    fn replaceable(&self, folder: &File) -> Result<(), RepositoryError> {
        match fstatat(folder, FILE, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => {
                let kind = SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits());
                if kind == SFlag::S_IFREG { Ok(()) } else { Err(self.not_a_file()) }
            }
            Err(Errno::ENOENT) => Ok(()),
            Err(e) => Err(self.at(FILE, e)),
        }
    }

    fn not_a_file(&self) -> RepositoryError {
        RepositoryError::NotConfined { path: self.path(), expected: "a file" }
    }

    fn at(&self, name: &str, errno: Errno) -> RepositoryError {
        let folder = self.working_directory.join(FOLDER);
        let path = match name {
            "" => self.working_directory.clone(),
            FOLDER => folder,
            name => folder.join(name),
        };
        RepositoryError::Io { path, source: errno.into() }
    }
}

impl DeliverableStatusReader for StatusFile {
    fn exists(&self) -> Result<bool, RepositoryError> {
        let Some(folder) = self.folder(false)? else { return Ok(false) };
        match fstatat(&folder, FILE, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(e) => Err(self.at(FILE, e)),
        }
    }

    fn load(&self) -> Result<DeliverableStatus, RepositoryError> {
        let Some(folder) = self.folder(false)? else { return Ok(empty()) };
        Ok(self.load_from(&folder)?.unwrap_or_else(empty))
    }
}

impl DeliverableRepository for StatusFile {
    fn save(&self, status: &DeliverableStatus) -> Result<(), RepositoryError> {
        let folder = self.folder(true)?.ok_or_else(|| self.at(FOLDER, Errno::ENOENT))?;
        let folder = self.locked(folder)?;
        self.save_to(&folder, status)
    }
}

fn empty() -> DeliverableStatus {
    DeliverableStatus::empty(today())
}

/// The current day in UTC.
pub(super) fn today() -> Day {
    Day::of(clock::now())
}
