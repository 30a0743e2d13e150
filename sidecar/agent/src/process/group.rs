//! A running program together with everything that it started.

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

use super::tree::{ProcessId, ProcessInfo};
use super::{Ending, guard, tree};

/// How long dropping waits for the end. A guard needs a few milliseconds.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// A program and everything that it starts. Dropping it ends all of it immediately, unless its [`Ending`](Ending)
/// grants time; usually nothing is left when the drop returns.
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

/// The means to end the group.
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

    /// A handle for other tasks to end or stop the group.
    pub fn handle(&self) -> ProcessHandle {
        self.handle.clone()
    }

    /// Takes the standard input, if it is piped.
    pub const fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Takes the standard output, if it is piped.
    pub const fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Takes the standard error, if it is piped.
    pub const fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the program has ended and, with a guard, nothing of what it started is left. Cancel-safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.handle.state().ended = true;
        Ok(status)
    }

    /// Asks the group to end, and kills it after `grace`. Nothing of it is left when this returns.
    pub async fn end(mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.handle.terminate();
        if let Ok(status) = timeout(grace, self.wait()).await {
            return status;
        }
        self.handle.kill();
        self.wait().await
    }

    /// Waits for the end in a task. Dropping the handle ends the group.
    pub(crate) fn wait_in_background(mut self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            _ = self.wait().await;
        }))
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

    /// Whether the whole group has ended and was reaped.
    pub fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Asks the program and its process group to end.
    pub fn terminate(&self) {
        self.state().send_order(guard::TERMINATE, Some(Signal::SIGTERM));
    }

    /// Kills the whole group.
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

    /// Stops all processes with a signal. The guard itself continues.
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

    /// Kills some processes. All are stopped first, because a shell whose command is killed would start its next one.
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

    /// Handles the drop of the group. Returns whether a guard is about to end.
    fn release(&self) -> bool {
        let mut state = self.state();
        let had_ended = state.ended;
        match &mut state.control_method {
            // Ends processes that remained in the group after its program ended.
            ControlMethod::Group => _ = killpg(state.id, Signal::SIGKILL),
            ControlMethod::Guard(leash) => drop(leash.take()),
        }
        state.wake();
        state.ended = true;
        matches!(state.control_method, ControlMethod::Guard(_)) && !had_ended
    }
}

impl GroupState {
    /// `signal` replaces the order if there is no guard.
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

    /// Continues a guard that was stopped, so that it can do its work.
    fn wake(&self) {
        if !self.ended {
            _ = kill(self.id, Signal::SIGCONT);
        }
    }
}
