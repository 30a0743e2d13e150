//! The directory of a run. It is created atomically and records the progress of the run, so that a worker continues after
//! it was killed at any moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pilothouse_domain::RunId;
use pilothouse_wire::launch::{LaunchRequest, RunExit, SidecarLaunch};

use super::replaceable::{REPLACEABLE, read_replaceable};
use super::{exit, run_lock};

/// Prefix of a directory that is being created.
pub(crate) const NEW_PREFIX: &str = ".new-";
/// Prefix of a directory that is being removed.
pub(crate) const OLD_PREFIX: &str = ".old-";
/// Folder beside the folder of the runs: the container engine of each run, until its exit is reported.
pub(crate) const ENGINES: &str = "engines";

const LAUNCH: &str = "launch.json";
const LOCK: &str = "lock";
const SPOOL: &str = "spool.db";
const LOG: &str = "sidecar.log";
const EXITED: &str = "exited.json";
/// Most bytes of the record of an exit.
const MAX_EXIT: u64 = 64 * 1024;
const FINISHED: &str = "finished";
/// The record of the engine in earlier versions.
const OLD_ENGINE: &str = "engine";

/// The directory has missing or invalid files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunDirError {
    #[error("{file} cannot be read")]
    Read { file: &'static str, source: io::Error },
    #[error("{file} is invalid")]
    Parse { file: &'static str, source: serde_json::Error },
    #[error("launch.json belongs to run {0}")]
    OtherRun(RunId),
}

#[derive(Debug, Clone)]
pub(crate) struct RunDir {
    path: PathBuf,
    /// Outside of the directory, because the worker runs this program and the agent of a container can write to the
    /// directory.
    engine: PathBuf,
}

impl RunDir {
    /// The path of a run directory, whether or not it exists.
    pub(crate) fn of(runs: &Path, run: RunId) -> Self {
        let name = run.to_string();
        Self { path: runs.join(&name), engine: runs.with_file_name(ENGINES).join(name) }
    }

    /// Creates the directory with its `launch.json` atomically: under a temporary name that is then renamed. Fails if it exists, and
    /// leaves no directory after a failure.
    pub(crate) fn create(&self, launch: &SidecarLaunch) -> io::Result<()> {
        self.create_synced(launch, |runs| File::open(runs)?.sync_all())
    }

    fn create_synced(
        &self,
        launch: &SidecarLaunch,
        sync: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let runs = self.path.parent().unwrap_or(Path::new("."));
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let new = runs.join(format!("{NEW_PREFIX}{name}"));
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        fs::DirBuilder::new().mode(0o700).create(&new)?;
        write_new(&new.join(LAUNCH), &serde_json::to_vec_pretty(launch)?)?;
        // A full disk delays the launch here; later it would end the run.
        write_new(&new.join(LOG), b"")?;
        fs::rename(&new, &self.path).inspect_err(|_| {
            let _ = fs::remove_dir_all(&new); // removed at the next start if not now
        })?;
        sync(runs).inspect_err(|_| {
            // A run whose directory exists counts as launched, so a repeated launch would start nothing.
            let _ = fs::rename(&self.path, &new).and_then(|()| fs::remove_dir_all(&new));
        })
    }

    pub(crate) fn request(&self, run: RunId) -> Result<LaunchRequest, RunDirError> {
        let bytes =
            fs::read(self.path.join(LAUNCH)).map_err(|source| RunDirError::Read { file: LAUNCH, source })?;
        let launch: SidecarLaunch =
            serde_json::from_slice(&bytes).map_err(|source| RunDirError::Parse { file: LAUNCH, source })?;
        if launch.request.run_id == run {
            Ok(launch.request)
        } else {
            Err(RunDirError::OtherRun(launch.request.run_id))
        }
    }

    pub(crate) fn exit(&self) -> Result<Option<RunExit>, RunDirError> {
        match read_replaceable(&self.path.join(EXITED), MAX_EXIT) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| RunDirError::Parse { file: EXITED, source }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RunDirError::Read { file: EXITED, source }),
        }
    }

    /// Records the exit. After that no sidecar starts in this directory.
    pub(crate) fn record_exit(&self, exit: &RunExit) -> io::Result<()> {
        let new = self.path.join(format!("{NEW_PREFIX}{EXITED}"));
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => write_new(&new, &serde_json::to_vec_pretty(exit)?)?,
        }
        fs::rename(&new, self.path.join(EXITED))
    }

    /// Records that no sidecar started here, unless one holds the lock. A sidecar that starts later finds the record and
    /// exits. One caller at a time, as for every access to the lock.
    pub(crate) fn close_unstarted(&self) -> io::Result<Option<RunExit>> {
        let Some(_lock) = run_lock::try_acquire(&self.lock())? else { return Ok(None) };
        let exit = exit::without_process(
            "the sidecar never started: the server ended while it was about to".to_owned(),
        );
        self.record_exit(&exit)?;
        Ok(Some(exit))
    }

    /// Marks the run as finished: its exit was reported.
    pub(crate) fn mark_finished(&self, exit: &RunExit) -> io::Result<()> {
        self.record_exit(exit)?;
        fs::rename(self.path.join(EXITED), self.finished())?;
        File::open(&self.path)?.sync_all()?;
        match fs::remove_file(&self.engine) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Whether its exit was reported. The agent of a container can create the mark, which then does not count: the record
    /// of the engine is removed after the report.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished().exists() && !self.engine.exists()
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Records atomically that the sidecar runs in a container of this engine.
    pub(crate) fn record_engine(&self, engine: &Path) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt as _;
        if self.engine().as_deref() == Some(engine) {
            return Ok(());
        }
        let new = self.engine.with_extension("new");
        if new.exists() {
            fs::remove_file(&new)?;
        }
        write_new(&new, engine.as_os_str().as_bytes())?;
        fs::rename(&new, &self.engine)
    }

    /// Records the engine of a run of an earlier version, which kept the record in the run directory. Its agent may have
    /// replaced that record, so only its existence counts.
    pub(crate) fn adopt_engine(&self, engine: &Path) -> io::Result<()> {
        if self.engine().is_some() || self.path.join(OLD_ENGINE).symlink_metadata().is_err() {
            return Ok(());
        }
        self.record_engine(engine)
    }

    /// The container engine, if the sidecar runs in a container.
    pub(crate) fn engine(&self) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStringExt as _;
        let bytes = fs::read(&self.engine).ok()?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    pub(crate) fn launch(&self) -> PathBuf {
        self.path.join(LAUNCH)
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

    /// Opens the log for appending. Removes a link or a named pipe that an agent in a container put in its place.
    pub(crate) fn open_log(&self) -> io::Result<File> {
        let log = self.log();
        if log.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            fs::remove_file(&log)?;
        }
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(REPLACEABLE).open(log)
    }
}

pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use pilothouse_test_support::launch_request;
    use pilothouse_wire::RootSecret;
    use pilothouse_wire::launch::RunAccessIssuer;

    use super::*;

    #[test]
    fn a_directory_that_cannot_be_synced_can_be_created_again() {
        let runs = tempfile::tempdir().unwrap();
        let request = launch_request();
        let run = request.run_id;
        let secret = RootSecret::new("test", vec![7; 32]).unwrap();
        let access = RunAccessIssuer::via_gateway("http://127.0.0.1:1").issue(&secret, &request);
        let launch = access.launch(request, String::new());
        let dir = RunDir::of(runs.path(), run);
        let failed = dir.create_synced(&launch, |_| Err(io::Error::other("the disk failed")));
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(runs.path()).unwrap().count(), 0);
        dir.create(&launch).unwrap();
        assert_eq!(dir.request(run).unwrap().run_id, run);
    }
}
