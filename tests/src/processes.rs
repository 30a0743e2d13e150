//! Sidecars as the operating system sees them: the process that holds the lock of a run is alive, even if the server reports otherwise.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    pub run: String,
    /// The leader of its process group.
    pub pid: Pid,
}

impl Sidecar {
    /// Kills the sidecar and its process group with SIGKILL.
    pub fn kill9(&self) {
        // The check protects the process group of the test.
        if getpgid(Some(self.pid)) == Ok(self.pid) {
            let _ = killpg(self.pid, Signal::SIGKILL);
        } else {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }

    pub fn freeze(&self) {
        kill(self.pid, Signal::SIGSTOP).expect("a live sidecar can be stopped");
    }

    pub fn thaw(&self) {
        kill(self.pid, Signal::SIGCONT).expect("a stopped sidecar can continue");
    }
}

/// The live sidecars of a data folder.
pub fn alive(data: &Path) -> Vec<Sidecar> {
    run_folders(data).iter().filter_map(|folder| holder(folder)).collect()
}

/// For a dead server. Includes sidecars that are starting.
pub fn kill_all(data: &Path) {
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        let alive = alive(data);
        alive.iter().for_each(Sidecar::kill9);
        // A sidecar may be about to take the missing lock.
        let starting = run_folders(data).iter().any(|f| !f.join("lock").exists() && !is_over(f));
        if (alive.is_empty() && !starting) || Instant::now() >= give_up {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// False for a zombie.
pub fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None) != Err(Errno::ESRCH) && !stat.contains(") Z ")
}

/// `None` until the file is written.
pub fn written(file: &Path) -> Option<Pid> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok().map(Pid::from_raw)
}

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

/// The process that holds the lock of a run. Does not lock a file without a process id, which could turn away the sidecar that is about to
/// write it.
fn holder(folder: &Path) -> Option<Sidecar> {
    let lock = folder.join("lock");
    let pid: i32 = std::fs::read_to_string(&lock).ok()?.trim().parse().ok().filter(|pid| *pid > 1)?;
    let file: File = OpenOptions::new().read(true).write(true).open(&lock).ok()?;
    // Shared, so that concurrent readers, such as the server's own check, do not take each other for the sidecar, unless the check falls
    // between these two lines.
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => {
            let run = folder.file_name()?.to_string_lossy().into_owned();
            Some(Sidecar { run, pid: Pid::from_raw(pid) })
        }
        _ => None,
    }
}
