//! A sidecar that this process started: spawned into its own process group, watched and reaped by a thread.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::sync::watch;

use crate::config::WorkerConfig;
use crate::run_dir::RunDir;

/// The program with one of its verbs, its output appended to the log of the run, in a process group of its own:
/// neither a `Ctrl-C` nor the end of the server reaches it.
pub(crate) fn command(config: &WorkerConfig, verb: &str, dir: &RunDir) -> io::Result<Command> {
    let log = dir.open_log()?;
    let mut command = Command::new(&config.sidecar);
    command.arg(verb).arg(dir.path());
    apart(&mut command, config, dir, log)?;
    Ok(command)
}

/// Sets a command apart from this process: its own directory, environment, log and group.
pub(crate) fn apart(command: &mut Command, config: &WorkerConfig, dir: &RunDir, log: File) -> io::Result<()> {
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

/// A sidecar that is a child of this process.
pub(crate) struct OwnProcess {
    pid: Pid,
    /// Nothing once it was reaped: from then on its process id may be that of another.
    child: Mutex<Option<Child>>,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl OwnProcess {
    /// Starts it, and the thread that waits for its end.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Arc<Self>> {
        let mut child = command.spawn()?;
        let pid = match i32::try_from(child.id()) {
            Ok(pid) => Pid::from_raw(pid),
            Err(e) => {
                let _ = child.kill(); // it cannot be addressed, so it must not run
                let _ = child.wait();
                return Err(io::Error::other(e));
            }
        };
        let (tell, ended) = watch::channel(None);
        let process = Arc::new(Self { pid, child: Mutex::new(Some(child)), ended });
        // A thread, not a task: it keeps neither the async runtime nor the server from ending, and goes on reaping
        // when nobody watches the run any more.
        let reaper = Arc::clone(&process);
        std::thread::Builder::new()
            .name(format!("reap-{pid}"))
            .stack_size(64 * 1024)
            .spawn(move || tell.send_replace(reaper.wait_and_reap()))
            .inspect_err(|_| process.end_now())?;
        Ok(process)
    }

    /// Signals the whole group, as long as the sidecar was not reaped. Returns whether there was one to signal.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if child.is_none() {
            return Ok(false);
        }
        killpg(self.pid, signal)?;
        Ok(true)
    }

    /// Waits for its end. Nothing when it is not known how it ended.
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
            // The sidecar is dead but not reaped, so its id still names its group and no other: what it left behind,
            // its agent above all, ends with it (ruling 15: no state may lie about a living process).
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
        let status = child.take()?.wait();
        status
            .inspect_err(|error| tracing::error!(%error, pid = %self.pid, "a sidecar cannot be reaped"))
            .ok()
    }

    /// Where `nix` cannot wait for a child without reaping it, it is asked for again and again, so that reaping and
    /// signalling exclude each other all the same.
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
                    let _ = end_left_behind(self.pid);
                    let status =
                        ended.inspect_err(|error| tracing::error!(%error, "a sidecar cannot be reaped"));
                    return status.ok().flatten();
                }
            }
        }
    }

    fn end_now(&self) {
        if let Some(mut child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = killpg(self.pid, Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

/// Waits until a child is dead, and leaves it to be reaped. Whether it is: not when something else in this process
/// reaped it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn wait_without_reaping(pid: Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    loop {
        match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(_) => return true,
            Err(Errno::EINTR) => {}
            Err(errno) => {
                tracing::error!(%pid, %errno, "a sidecar cannot be waited for");
                return false;
            }
        }
    }
}

/// Signals the group of a sidecar that an earlier server started. Its process id is believed only while the lock
/// is held, which the caller has looked at just now, and only if it leads a group that is not ours.
///
/// Between that look and the signal, the sidecar would have to die, be reaped, and its id be given, after all others
/// had had their turn, to a new leader of a group: a matter of seconds at the least, against one of microseconds.
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

/// Ends what a dead sidecar left behind. `group` was its process id a moment ago, when it was last seen alive.
/// Returns false if that could not be done because a process still has that id.
///
/// A group whose leader is gone and that has members still has had them all along: as long as it has, the system
/// gives its id to nobody else. If a process has the id, the sidecar is not reaped yet, or its group was empty and the
/// id is another's by now; then nothing is signalled.
pub(crate) fn end_left_behind(group: Pid) -> bool {
    if kill(group, None) != Err(Errno::ESRCH) {
        return false;
    }
    if killpg(group, Signal::SIGKILL).is_ok() {
        tracing::warn!(%group, "a sidecar left processes behind; they were ended");
    }
    true
}

/// Whether a path names a program that can be run, to say so at start rather than at the first launch.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
