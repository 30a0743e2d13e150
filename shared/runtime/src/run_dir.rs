//! The directory of a run: how it is created whole, and how its progress is noted so that a worker that was
//! killed at any moment can go on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pilothouse_domain::RunId;
use pilothouse_wire::launch::{LaunchRequest, RunExit, SidecarLaunch};

use crate::{exit, lock};

/// A directory that is being made. Left over from a kill, it was never a run.
pub(crate) const NEW_PREFIX: &str = ".new-";
/// A directory that is being removed.
pub(crate) const OLD_PREFIX: &str = ".old-";

const LAUNCH: &str = "launch.json";
const LOCK: &str = "lock";
const SPOOL: &str = "spool.db";
const LOG: &str = "sidecar.log";
const EXITED: &str = "exited.json";
const FINISHED: &str = "finished";
const ENGINE: &str = "engine";

/// A directory that does not say what it must.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TornRunDir {
    #[error("{file} cannot be read")]
    Read { file: &'static str, source: io::Error },
    #[error("{file} is not what it should be")]
    Parse { file: &'static str, source: serde_json::Error },
    #[error("launch.json is of run {0}")]
    OtherRun(RunId),
}

/// The directory of one run.
#[derive(Debug, Clone)]
pub(crate) struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// The place of a run's directory, whether or not it exists.
    pub(crate) fn of(runs: &Path, run: RunId) -> Self {
        Self { path: runs.join(run.to_string()) }
    }

    /// Makes the directory with its `launch.json`, all at once: it is built beside its place and moved there, so
    /// that no kill leaves one without the other.
    ///
    /// # Errors
    /// The directory exists already, or the file system refuses.
    pub(crate) fn create(&self, launch: &SidecarLaunch) -> io::Result<()> {
        let runs = self.path.parent().unwrap_or(Path::new("."));
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let new = runs.join(format!("{NEW_PREFIX}{name}"));
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        fs::DirBuilder::new().mode(0o700).create(&new)?;
        write_new(&new.join(LAUNCH), &serde_json::to_vec_pretty(launch)?)?;
        fs::rename(&new, &self.path).inspect_err(|_| {
            let _ = fs::remove_dir_all(&new); // removed at the next start if not now
        })?;
        File::open(runs)?.sync_all()
    }

    /// Reads what was asked for.
    pub(crate) fn request(&self, run: RunId) -> Result<LaunchRequest, TornRunDir> {
        let bytes =
            fs::read(self.path.join(LAUNCH)).map_err(|source| TornRunDir::Read { file: LAUNCH, source })?;
        let launch: SidecarLaunch =
            serde_json::from_slice(&bytes).map_err(|source| TornRunDir::Parse { file: LAUNCH, source })?;
        if launch.request.run_id == run {
            Ok(launch.request)
        } else {
            Err(TornRunDir::OtherRun(launch.request.run_id))
        }
    }

    /// How the process ended, if that was noted.
    pub(crate) fn exit(&self) -> Result<Option<RunExit>, TornRunDir> {
        match fs::read(self.path.join(EXITED)) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| TornRunDir::Parse { file: EXITED, source }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(TornRunDir::Read { file: EXITED, source }),
        }
    }

    /// Notes how the process ended, so that it is known after a kill. From then on no sidecar starts here.
    pub(crate) fn note_exit(&self, exit: &RunExit) -> io::Result<()> {
        let new = self.path.join(format!("{NEW_PREFIX}{EXITED}"));
        if new.exists() {
            fs::remove_file(&new)?;
        }
        write_new(&new, &serde_json::to_vec_pretty(exit)?)?;
        fs::rename(&new, self.path.join(EXITED))
    }

    /// Notes that no sidecar ever started here, unless one holds the lock. Whoever holds the lock decides: a sidecar
    /// that comes later finds the note and goes. One caller at a time, as with every look at the lock.
    pub(crate) fn close_unstarted(&self) -> io::Result<Option<RunExit>> {
        let Some(_lock) = lock::take(&self.lock())? else { return Ok(None) };
        let exit = exit::without_process(
            "the sidecar never started: the server ended while it was about to".to_owned(),
        );
        self.note_exit(&exit)?;
        Ok(Some(exit))
    }

    /// Marks the run as one that needs nothing more: its exit was reported.
    pub(crate) fn finish(&self, exit: &RunExit) -> io::Result<()> {
        self.note_exit(exit)?;
        fs::rename(self.path.join(EXITED), self.finished())?;
        File::open(&self.path)?.sync_all()
    }

    /// Whether the run needs nothing more.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished().exists()
    }

    /// Whether there is such a directory.
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that the sidecar runs in a container of this engine.
    pub(crate) fn note_engine(&self, engine: &Path) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt as _;
        write_new(&self.path.join(ENGINE), engine.as_os_str().as_bytes())
    }

    /// The engine that the sidecar runs in a container of, if it does.
    pub(crate) fn engine(&self) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStringExt as _;
        let bytes = fs::read(self.path.join(ENGINE)).ok()?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    pub(crate) fn spool(&self) -> PathBuf {
        self.path.join(SPOOL)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    pub(crate) fn finished(&self) -> PathBuf {
        self.path.join(FINISHED)
    }

    /// The log, to append to.
    pub(crate) fn open_log(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(self.log())
    }
}

/// Makes a folder and those above it, for this user alone.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
