//! A running program with its descendants.

use std::io::{self, PipeWriter, Write as _};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

#[cfg(any(target_os = "linux", target_os = "android"))]
use {
    nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid},
    std::os::unix::process::ExitStatusExt as _,
    tokio::signal::unix::{SignalKind, signal},
};

use super::tree::{ProcessId, ProcessInfo};
use super::{Ending, guard, tree};

/// Limit of the wait in a drop. A guard needs a few milliseconds.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// A program with everything that it starts. Dropping it ends all of it immediately, unless its [`Ending`](Ending)
/// grants time; usually no process is left when the drop returns.
///
/// With a guard this covers all descendants, and they also end when this process dies. Without one
/// ([`Guard::GroupAlone`](super::Guard)) it covers the process group.
#[derive(Debug)]
pub struct Group {
    child: Child,
    handle: ProcessHandle,
    /// Whether dropping ends it immediately.
    at_once: bool,
}

/// Controls a [`Group`] from other tasks than the one that waits for it. Has no effect once the group has ended.
#[derive(Debug, Clone)]
pub struct ProcessHandle(Arc<Mutex<GroupState>>);

#[derive(Debug)]
struct GroupState {
    /// Process id of the guard, or of the program, which leads a process group.
    id: Pid,
    control_method: ControlMethod,
    ended: bool,
}

#[derive(Debug)]
enum ControlMethod {
    /// The guard's leash. `None` once it was dropped.
    Guard(Option<PipeWriter>),
    Group,
}

impl Group {
    pub(super) fn new(child: Child, leash: Option<PipeWriter>, ending: Ending) -> io::Result<Self> {
        let id = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .ok_or_else(|| io::Error::other("a process without an id"))?;
        let control_method = leash.map_or(ControlMethod::Group, |leash| ControlMethod::Guard(Some(leash)));
        let state = GroupState { id: Pid::from_raw(id), control_method, ended: false };
        let handle = ProcessHandle(Arc::new(Mutex::new(state)));
        Ok(Self { child, handle, at_once: ending.grace.is_zero() })
    }

    pub fn handle(&self) -> ProcessHandle {
        self.handle.clone()
    }

    pub const fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub const fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub const fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the program has ended and, with a guard, no descendant is left. Cancel-safe.
    ///
    /// The process is reaped only after the last signal, because its id can be reused afterwards. Without a guard, that
    /// is when the group is dropped: the id is also that of the process group, which may outlive the process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        let id = self.handle.state().id;
        // Without an id, an earlier call has reaped it.
        let status = if self.child.id().is_some() { Some(exit_status(id).await?) } else { None };
        let leads_group = {
            let mut state = self.handle.state();
            state.ended = true;
            matches!(state.control_method, ControlMethod::Group)
        };
        match status {
            Some(status) if leads_group => Ok(status),
            _ => self.child.wait().await,
        }
    }

    /// Waits until the program has ended and, with a guard, no descendant is left. Cancel-safe.
    ///
    /// `nix` cannot wait here without reaping.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.handle.state().ended = true;
        Ok(status)
    }

    /// Kills the group after `grace`. No process of it is left when this returns.
    pub async fn end(mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.handle.terminate();
        if let Ok(status) = timeout(grace, self.wait()).await {
            return status;
        }
        self.handle.kill();
        self.wait().await
    }

    /// Dropping the handle ends the group.
    pub(crate) fn wait_in_background(mut self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            _ = self.wait().await;
        }))
    }
}

/// Waits until a child has ended, without reaping it. Cancel-safe.
#[cfg(any(target_os = "linux", target_os = "android"))]
async fn exit_status(id: Pid) -> io::Result<ExitStatus> {
    // Registered first, so that no end is missed.
    let mut changes = signal(SignalKind::child())?;
    loop {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(id), look)? {
            WaitStatus::Exited(_, code) => return Ok(ExitStatus::from_raw((code & 0xff) << 8)),
            WaitStatus::Signaled(_, signal, dumped) => {
                let core = if dumped { 0x80 } else { 0 };
                return Ok(ExitStatus::from_raw(signal as i32 | core));
            }
            _ => _ = changes.recv().await,
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.handle.release() && self.at_once {
            let deadline = Instant::now() + DROP_LIMIT;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                sleep(Duration::from_millis(1));
            }
        }
    }
}

impl ProcessHandle {
    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With a guard, this includes all descendants.
    pub fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Asks the program and its process group to end.
    pub fn terminate(&self) {
        self.state().send_order(guard::TERMINATE, Some(Signal::SIGTERM));
    }

    pub fn kill(&self) {
        let mut state = self.state();
        state.send_order(guard::KILL, Some(Signal::SIGKILL));
        state.wake();
    }

    /// Ends leftovers as soon as the program has ended, without [lingering](Ending::linger), because their output is
    /// not needed.
    pub fn skip_linger(&self) {
        self.state().send_order(guard::SKIP_LINGER, None);
    }

    /// The guard itself continues.
    pub fn pause(&self) {
        let state = self.state();
        if state.ended {
            return;
        }
        if matches!(state.control_method, ControlMethod::Group) {
            _ = kill(state.id, Signal::SIGSTOP);
        }
        tree::stop_below(state.id);
    }

    /// Whether all processes are stopped, so that none can run before [`Self::resume`].
    pub fn is_stopped(&self) -> bool {
        self.processes().iter().all(ProcessInfo::is_stopped)
    }

    /// The current processes, parents before children. Empty on systems without `/proc`.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        let state = self.state();
        if state.ended { Vec::new() } else { tree::list_below(state.id) }
    }

    /// Kills some processes. Stops all first, because a shell whose command is killed would start its next one.
    pub fn kill_processes(&self, processes: &[ProcessId]) {
        let state = self.state();
        if state.ended {
            return;
        }
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            for process in processes {
                process.signal(signal);
            }
        }
    }

    /// Continues all processes.
    pub fn resume(&self) {
        let state = self.state();
        if !state.ended {
            tree::continue_below(state.id);
            state.wake();
        }
    }

    /// Called when the group is dropped. Returns whether a guard is about to end.
    fn release(&self) -> bool {
        let mut state = self.state();
        let had_ended = state.ended;
        match &mut state.control_method {
            // Ends processes that stayed in the group after its program ended. The program is not reaped yet, so the id
            // is its own.
            ControlMethod::Group => _ = killpg(state.id, Signal::SIGKILL),
            ControlMethod::Guard(leash) => drop(leash.take()),
        }
        state.wake();
        state.ended = true;
        matches!(state.control_method, ControlMethod::Guard(_)) && !had_ended
    }
}

impl GroupState {
    /// Without a guard, `signal` replaces the order.
    fn send_order(&mut self, order: u8, signal: Option<Signal>) {
        if self.ended {
            return;
        }
        match &mut self.control_method {
            // Fails only if the guard has ended.
            ControlMethod::Guard(Some(leash)) => _ = leash.write_all(&[order]),
            ControlMethod::Guard(None) => {}
            ControlMethod::Group => {
                if let Some(signal) = signal {
                    _ = killpg(self.id, signal);
                }
            }
        }
    }

    /// Continues a stopped guard, so that it can do its work.
    fn wake(&self) {
        if !self.ended {
            _ = kill(self.id, Signal::SIGCONT);
        }
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Stdio;

    use nix::errno::Errno;

    use super::*;
    use crate::process::Guard;

    fn program(script: &str) -> Group {
        let mut launch = Guard::GroupAlone.command("/bin/sh", Ending::default()).unwrap();
        launch.command().args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null());
        launch.spawn().unwrap()
    }

    #[tokio::test]
    async fn ended_group_keeps_its_id_until_it_is_dropped() {
        for (script, code, signal) in [("exit 3", Some(3), None), ("kill -9 $$", None, Some(9))] {
            let mut group = program(script);
            let id = group.handle.state().id;
            for _ in 0..2 {
                let status = group.wait().await.unwrap();
                assert_eq!((status.code(), status.signal()), (code, signal));
            }
            assert!(group.handle().has_ended());
            assert_eq!(kill(id, None), Ok(()), "no other process can get the id that the drop signals");
            drop(group);
            assert_eq!(kill(id, None), Err(Errno::ESRCH), "it is reaped");
        }
    }

    #[tokio::test]
    async fn group_is_waited_for_like_a_child() {
        // It reads its standard input to the end.
        let mut group = program("cat");
        assert!(group.wait().await.unwrap().success());
        // A cancelled wait loses no status.
        let mut group = program("exit 4");
        tokio::select! {
            biased;
            _ = group.wait() => {}
            () = async {} => {}
        }
        assert_eq!(group.wait().await.unwrap().code(), Some(4));
    }
}
