//! Sidecars, as the operating system knows them: whoever holds the lock of a run is alive, whatever the server says.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};

/// A sidecar that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Its run.
    pub run: String,
    /// Its process, which leads a group of its own.
    pub pid: Pid,
}

impl Sidecar {
    /// Kills it and all that it started, at once.
    pub fn kill9(&self) {
        // Only a group of its own: never the group of the test.
        if getpgid(Some(self.pid)) == Ok(self.pid) {
            let _ = killpg(self.pid, Signal::SIGKILL);
        } else {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }

    /// Stops it from running without ending it: it is silent, and alive.
    pub fn freeze(&self) {
        kill(self.pid, Signal::SIGSTOP).expect("a sidecar that is alive can be stopped");
    }

    /// Lets it run again.
    pub fn thaw(&self) {
        kill(self.pid, Signal::SIGCONT).expect("a stopped sidecar can go on");
    }
}

/// The sidecars of a data folder that are alive.
pub fn alive(data: &Path) -> Vec<Sidecar> {
    run_folders(data).iter().filter_map(|folder| holder(folder)).collect()
}

/// Kills every sidecar of a data folder whose server is dead, also one that was only just started.
pub fn kill_all(data: &Path) {
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        let alive = alive(data);
        alive.iter().for_each(Sidecar::kill9);
        // A folder without a lock may be one whose sidecar is about to take it.
        let starting = run_folders(data).iter().any(|f| !f.join("lock").exists() && !is_over(f));
        if (alive.is_empty() && !starting) || Instant::now() >= give_up {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process lives: one that is dead and was not reaped does not.
pub fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None) != Err(Errno::ESRCH) && !stat.contains(") Z ")
}

/// The process that has written its id to a file, once it has.
pub fn written(file: &Path) -> Option<Pid> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok().map(Pid::from_raw)
}

/// The folders of runs.
pub fn run_folders(data: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(data.join("runs")) else { return Vec::new() };
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut folders: Vec<_> = folders.filter(|path| path.join("launch.json").is_file()).collect();
    folders.sort();
    folders
}

fn is_over(folder: &Path) -> bool {
    ["finished", "exited.json"].iter().any(|file| folder.join(file).exists())
}

/// Who holds the lock of a run. A lock without a process id is left alone: taking it, if only to look, could turn away
/// the sidecar that is about to write it.
fn holder(folder: &Path) -> Option<Sidecar> {
    let lock = folder.join("lock");
    let pid: i32 = std::fs::read_to_string(&lock).ok()?.trim().parse().ok().filter(|pid| *pid > 1)?;
    let file: File = OpenOptions::new().read(true).write(true).open(&lock).ok()?;
    // Shared: two that look at once do not take each other for the sidecar, and neither does the server's own look,
    // unless it falls between these two lines.
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => {
            let run = folder.file_name()?.to_string_lossy().into_owned();
            Some(Sidecar { run, pid: Pid::from_raw(pid) })
        }
        _ => None,
    }
}
