//! How a guard ends everything, and itself.

use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, getpid};

use crate::process::tree;

/// How long what was killed may take to go: only a stuck kernel call holds it, or a user who may not be signalled.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// After how long it is looked again for what was started meanwhile.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// And at most.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Kills what is below this process at this moment. `program` leads a group, which is all that is known elsewhere than on Linux.
pub(super) fn kill_below(program: Pid) {
    if cfg!(not(any(target_os = "linux", target_os = "android"))) {
        let _ = nix::sys::signal::killpg(program, Signal::SIGKILL);
    }
    for pid in tree::below(getpid()) {
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// Ends this process as the program ended: by the same code, or by the same signal where that can be.
pub(super) fn like(status: Option<WaitStatus>) -> ExitCode {
    let signal = match status {
        Some(WaitStatus::Exited(_, code)) => return u8::try_from(code).unwrap_or(1).into(),
        Some(WaitStatus::Signaled(_, signal, _)) => signal,
        // It was killed, and is stuck in its death.
        _ => Signal::SIGKILL,
    };
    // The program has dumped its core, if that was wanted.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_dumpable(false);
    let _ = SigSet::all().thread_unblock();
    // A handler that the standard library has set for some takes itself away the first time.
    for _ in 0..2 {
        let _ = raise(signal);
    }
    u8::try_from(128 + signal as i32).unwrap_or(1).into()
}
