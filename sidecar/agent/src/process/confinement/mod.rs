//! Which files an agent's programs may read and write, enforced by the kernel.
//!
//! On Linux this uses Landlock (version 3 of its ABI or later), which needs no privileges. Landlock can only grant
//! access, and a grant on a folder includes all its content. A folder that contains a hidden one is therefore not
//! granted; its other entries are granted one by one ([`Confinement::grants`]). On macOS it uses a profile of
//! `sandbox-exec`, which can deny access. Other systems have no confinement.
//!
//! A confined program gains no privileges (`no_new_privs`), mounts no file systems, and cannot signal or trace outside
//! processes, as far as the kernel supports it (version 6 of the ABI). Sockets in the file system are not covered: a
//! server behind a socket acts with its own rights.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod landlock;
mod profile;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What the kernel of this machine can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Nothing,
    Files,
    /// File access, and signals to outside processes.
    FilesAndSignals,
}

pub fn support() -> Support {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return landlock::support();
    #[cfg(target_os = "macos")]
    return if Path::new(profile::SANDBOX_EXEC).is_file() {
        Support::FilesAndSignals
    } else {
        Support::Nothing
    };
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos")))]
    return Support::Nothing;
}

/// Devices and shared memory that every program may use. Others are hidden: through a disk, a user could read every
/// file.
const DEVICES: [&str; 12] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
    "/dev/kvm",
    "/dev/dri",
    "/dev/kfd",
];
/// Name prefixes of further allowed devices: graphics processors.
const DEVICE_PREFIXES: [&str; 1] = ["nvidia"];

fn devices() -> impl Iterator<Item = PathBuf> {
    let named = |name: &std::ffi::OsStr| {
        DEVICE_PREFIXES.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    let entries = Path::new("/dev").read_dir().into_iter().flatten().flatten();
    let more = entries.filter(move |entry| named(&entry.file_name())).map(|entry| entry.path());
    DEVICES.iter().map(PathBuf::from).filter(|device| device.exists()).chain(more)
}

/// File access of an agent's programs. All paths are absolute and contain no symbolic links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Not accessible. All other paths may be read and executed.
    hidden: Vec<PathBuf>,
    /// Folders inside `hidden` that may be read.
    readable: Vec<PathBuf>,
    /// Paths that may be read and written, also inside `hidden`.
    writable: Vec<PathBuf>,
    /// Whether everything that is not hidden may be written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    writes_elsewhere: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    #[error("{path} cannot be resolved: {source}")]
    Unresolved { path: PathBuf, source: io::Error },
    /// Write access would include a hidden path.
    #[error("{} contains {}, which agents must not reach", path.display(), hidden.display())]
    ContainsHidden {
        path: PathBuf,
        /// The hidden path in it.
        hidden: PathBuf,
    },
    /// The path itself is hidden.
    #[error("{} is inside {}, which agents must not reach", path.display(), hidden.display())]
    Hidden {
        path: PathBuf,
        /// The hidden path that contains it.
        hidden: PathBuf,
    },
}

/// Access to a file, or to everything below a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Read and execute.
    Read(PathBuf),
    /// Read, execute and change.
    Write(PathBuf),
}

impl Confinement {
    /// The paths need not exist.
    pub fn hiding(paths: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let mut hidden: Vec<PathBuf> = Vec::new();
        for path in paths {
            let path = resolve(&path)?;
            if !hidden.contains(&path) {
                hidden.push(path);
            }
        }
        Ok(Self { hidden, readable: Vec::new(), writable: Vec::new(), writes_elsewhere: false })
    }

    /// Grants write access to everything that is not hidden, except for the folders that contain a hidden path. For a container, which
    /// has only the devices that its engine gave it.
    pub const fn allow_writing_elsewhere(&mut self) {
        self.writes_elsewhere = true;
    }

    /// Whether everything that is not hidden may be written.
    pub const fn writes_elsewhere(&self) -> bool {
        self.writes_elsewhere
    }

    /// Grants read access to a folder of the host inside a hidden one.
    pub fn exempt_to_read(&mut self, folder: &Path) -> io::Result<()> {
        self.readable.push(folder.canonicalize()?);
        Ok(())
    }

    /// Grants read and write access to a folder of the host inside a hidden one.
    pub fn exempt_to_write(&mut self, folder: &Path) -> io::Result<()> {
        self.writable.push(folder.canonicalize()?);
        Ok(())
    }

    /// Grants read and write access to an existing file or folder.
    pub fn allow_writing(&mut self, path: &Path) -> Result<(), GrantError> {
        let unresolved = |source| GrantError::Unresolved { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(unresolved)?;
        if self.writable.iter().any(|granted| path.starts_with(granted)) {
            return Ok(());
        }
        for hidden in &self.hidden {
            let hidden = hidden.clone();
            if hidden.starts_with(&path) {
                return Err(GrantError::ContainsHidden { path, hidden });
            }
            if path.starts_with(&hidden) {
                return Err(GrantError::Hidden { path, hidden });
            }
        }
        self.writable.push(path);
        Ok(())
    }

    /// The current grants. They exclude entries that are created later in a folder which contains a hidden one.
    pub fn grants(&self) -> io::Result<Vec<Grant>> {
        let mut grants = Vec::new();
        self.grant_unhidden(Path::new("/"), &mut grants)?;
        grants.extend(self.readable.iter().cloned().map(Grant::Read));
        // A path that has become a link since then has another target.
        let unchanged = |path: &PathBuf| path.canonicalize().is_ok_and(|now| now == *path);
        let writable = self.writable.iter().filter(|path| unchanged(path)).cloned();
        grants.extend(devices().chain(writable).map(Grant::Write));
        Ok(grants)
    }

    /// Grants access to everything that is not hidden.
    fn grant_unhidden(&self, path: &Path, grants: &mut Vec<Grant>) -> io::Result<()> {
        let devices = Path::new("/dev");
        let is_own_grant = path == devices && !self.writes_elsewhere;
        if is_own_grant || self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return Ok(());
        }
        if path != Path::new("/") && !self.hidden.iter().any(|hidden| hidden.starts_with(path)) {
            let grant = if self.writes_elsewhere { Grant::Write } else { Grant::Read };
            grants.push(grant(path.to_owned()));
            return Ok(());
        }
        for entry in path.read_dir()? {
            let entry = entry?;
            // A link's target has its own grant or none.
            if !entry.file_type()?.is_symlink() {
                self.grant_unhidden(&entry.path(), grants)?;
            }
        }
        Ok(())
    }

    /// Includes everything that the thread starts from now on.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn confine_thread(&self) -> io::Result<()> {
        landlock::confine_thread(&self.grants()?)
    }

    /// This process is not confined.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn spawn(&self, mut command: std::process::Command) -> io::Result<std::process::Child> {
        // Programs inherit the thread's confinement, so no code runs between fork and exec.
        let started = std::thread::scope(|scope| {
            let confined = || self.confine_thread().and_then(|()| command.spawn());
            std::thread::Builder::new()
                .spawn_scoped(scope, confined)?
                .join()
                .map_err(|_| io::Error::other("it panicked"))
        });
        started?
    }

    /// This process is not confined.
    #[cfg(target_os = "macos")]
    pub(super) fn spawn(&self, command: std::process::Command) -> io::Result<std::process::Child> {
        profile::sandboxed(self, &command).spawn()
    }

    /// Fails, because this platform cannot confine programs.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos")))]
    pub(super) fn spawn(&self, _: std::process::Command) -> io::Result<std::process::Child> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Resolves links. Missing parts are kept as written.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(e) };
            Ok(resolve(parent)?.join(name))
        }
        resolved => resolved,
    }
}

#[cfg(test)]
mod tests;
