//! A sidecar that this process started: in its own process group, reaped by a thread.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::sync::watch;

use super::config::WorkerConfig;
use super::run_dir::RunDir;

/// The sidecar program with a subcommand. Its output is appended to the log of the run. It has its own process group, so
/// neither `Ctrl-C` nor the end of the server reaches it.
pub(crate) fn command(config: &WorkerConfig, verb: &str, dir: &RunDir) -> io::Result<Command> {
    let log = dir.open_log()?;
    let mut command = Command::new(&config.sidecar);
    command.arg(verb).arg(dir.path());
    isolate(&mut command, config, dir, log)?;
    Ok(command)
}

pub(crate) fn isolate(
    command: &mut Command,
    config: &WorkerConfig,
    dir: &RunDir,
    log: File,
) -> io::Result<()> {
    command
        .current_dir(dir.path())
        .env_clear()
        .envs(config.environment.iter())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    Ok(())
}

pub(crate) struct ChildProcess {
    pid: Pid,
    /// `None` after the child was reaped: then its process id may belong to another process.
    child: Mutex<Option<Child>>,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl ChildProcess {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Arc<Self>> {
        let mut child = command.spawn()?;
        let pid = match i32::try_from(child.id()) {
            Ok(pid) => Pid::from_raw(pid),
            Err(e) => {
                let _ = child.kill(); // it cannot be signalled, so it must not run
                let _ = child.wait();
                return Err(io::Error::other(e));
            }
        };
        let (sender, ended) = watch::channel(None);
        let process = Arc::new(Self { pid, child: Mutex::new(Some(child)), ended });
        // A thread, not a task: it does not keep the async runtime from ending, and continues to reap
        // when nothing supervises the run.
        let reaper = Arc::clone(&process);
        std::thread::Builder::new()
            .name(format!("reap-{pid}"))
            .stack_size(64 * 1024)
            .spawn(move || sender.send_replace(reaper.wait_and_reap()))
            .inspect_err(|_| process.kill_now())?;
        Ok(process)
    }

    /// Signals the process group unless the sidecar was reaped. Returns whether it was signalled.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if child.is_none() {
            return Ok(false);
        }
        killpg(self.pid, signal)?;
        Ok(true)
    }

    /// Waits for the exit. `None` if the exit status is unknown.
    pub(crate) async fn ended(&self) -> Option<ExitStatus> {
        let mut ended = self.ended.clone();
        let status = ended.wait_for(Option::is_some).await;
        status.ok().and_then(|status| *status)
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    fn wait_and_reap(&self) -> Option<ExitStatus> {
        let unreaped = wait_without_reaping(self.pid);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if unreaped {
            // The sidecar is dead but not reaped, so its id still identifies its group: kill what it left behind,
            // above all its agent (decision 15: no state may lie about a living process).
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
        let status = child.take()?.wait();
        status.inspect_err(|error| tracing::error!(%error, pid = %self.pid, "failed to reap a sidecar")).ok()
    }

    /// On systems where `nix` cannot wait for a child without reaping it, poll, so that reaping and
    /// signalling still exclude each other.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    fn wait_and_reap(&self) -> Option<ExitStatus> {
        loop {
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            match child.as_mut()?.try_wait() {
                Ok(None) => {
                    drop(child);
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                ended => {
                    *child = None;
                    let _ = kill_leftover_group(self.pid);
                    let status =
                        ended.inspect_err(|error| tracing::error!(%error, "failed to reap a sidecar"));
                    return status.ok().flatten();
                }
            }
        }
    }

    fn kill_now(&self) {
        if let Some(mut child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = killpg(self.pid, Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

/// Waits until a child is dead, without reaping it. Returns false if something else in this process
/// reaped it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn wait_without_reaping(pid: Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    loop {
        match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(_) => return true,
            Err(Errno::EINTR) => {}
            Err(errno) => {
                tracing::error!(%pid, %errno, "failed to wait for a sidecar");
                return false;
            }
        }
    }
}

/// Signals the group of a sidecar that an earlier server started. The caller has just seen that the process holds the
/// lock; the process must also lead a group that is not ours.
///
/// A wrong process could be signalled only if the sidecar died, was reaped, and its id was reused for a new group leader
/// within the microseconds between the check and the signal. The system reuses an id after seconds at the earliest.
pub(crate) fn signal_holder(pid: Pid, signal: Signal) -> io::Result<bool> {
    let leads = match nix::unistd::getpgid(Some(pid)) {
        Ok(group) => group == pid && group != nix::unistd::getpgrp(),
        Err(Errno::ESRCH) => false,
        Err(errno) => return Err(errno.into()),
    };
    if leads {
        killpg(pid, signal)?;
    }
    Ok(leads)
}

/// Kills what a dead sidecar left behind. `group` was its process id when it was last seen alive.
/// Returns false if a process still has that id.
///
/// While a group without a leader has members, the system does not reuse its id. If a process has the id, the sidecar is
/// not reaped yet, or the group was empty and the id was reused; then nothing is signalled.
pub(crate) fn kill_leftover_group(group: Pid) -> bool {
    if kill(group, None) != Err(Errno::ESRCH) {
        return false;
    }
    if killpg(group, Signal::SIGKILL).is_ok() {
        tracing::warn!(%group, "killed processes that a sidecar left behind");
    }
    true
}
