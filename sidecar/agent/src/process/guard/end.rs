//! How a guard ends all processes and itself.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, getpid};

use crate::process::tree;

/// How long killed processes may take to disappear. Only a stuck system call, or a user who may not be signalled,
/// exceeds it.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// Interval until the next search for new processes: initially, and whenever one was found.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest such interval.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Kills the current descendants of this process. Returns whether any was not in `known`. Outside Linux, only ends the
/// process group that `program` leads.
pub(super) fn kill_below(program: Pid, known: &mut BTreeSet<Pid>) -> bool {
    if cfg!(not(any(target_os = "linux", target_os = "android"))) {
        let _ = nix::sys::signal::killpg(program, Signal::SIGKILL);
    }
    let mut more = false;
    for pid in tree::below(getpid()) {
        let _ = kill(pid, Signal::SIGKILL);
        more |= known.insert(pid);
    }
    more
}

/// Uses the program's exit code or, if possible, the signal that ended it.
pub(super) fn exit_like(status: Option<WaitStatus>) -> ExitCode {
    let signal = match status {
        Some(WaitStatus::Exited(_, code)) => return u8::try_from(code).unwrap_or(1).into(),
        Some(WaitStatus::Signaled(_, signal, _)) => signal,
        // The program was killed but has not been reaped.
        _ => Signal::SIGKILL,
    };
    // The program has written a core dump if that was enabled.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_dumpable(false);
    let _ = SigSet::all().thread_unblock();
    // The standard library's handlers of some signals remove themselves on the first signal.
    for _ in 0..2 {
        let _ = raise(signal);
    }
    u8::try_from(128 + signal as i32).unwrap_or(1).into()
}
