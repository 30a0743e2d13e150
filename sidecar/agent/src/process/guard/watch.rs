//! The event sources of a guard, each on its own thread.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::process::lease::LeaseFile;

/// Longest interval between two checks of the lease. After a suspension of the machine, a sleep continues with its
/// remaining time.
const LEASE_POLL: Duration = Duration::from_secs(1);

pub(super) enum GuardEvent {
    /// The leash has closed: the process that started this one has ended.
    Orphaned,
    /// Everything must end now.
    Kill,
    /// The program must be asked to end.
    Terminate,
    /// Leftovers may not linger.
    SkipLinger,
    /// The flag is true if no descendant of the program is left.
    Ended(WaitStatus, bool),
    /// No descendant of this process is left, and none can appear.
    AllEnded,
}

pub(super) struct EventSources {
    pub(super) program: Pid,
    pub(super) leash: Option<File>,
    pub(super) expiry: Option<LeaseFile>,
}

impl EventSources {
    pub(super) fn start(self) -> io::Result<Receiver<GuardEvent>> {
        let (sender, receiver) = mpsc::channel();
        let Self { program, leash, expiry } = self;
        let signals = block_signals();
        if let Some(leash) = leash {
            let sender = sender.clone();
            spawn_thread(move || read_orders(leash, &sender))?;
        }
        if let Some(lease) = expiry {
            let sender = sender.clone();
            spawn_thread(move || watch_lease(&lease, &sender))?;
        }
        let signal_sender = sender.clone();
        spawn_thread(move || {
            while let Ok(_signal) = signals.wait() {
                let _ = signal_sender.send(GuardEvent::Orphaned);
            }
        })?;
        spawn_thread(move || reap(program, &sender))?;
        Ok(receiver)
    }
}

/// Starts a thread with a small stack, because every program has a guard.
fn spawn_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(64 * 1024).spawn(work).map(drop)
}

/// Blocks signals that would end this process before the guarded ones. Called after the start of the program, which
/// would inherit the mask.
fn block_signals() -> SigSet {
    let mut blocked = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        blocked.add(signal);
    }
    // Threads inherit the mask. Fails only for invalid arguments.
    let _ = blocked.thread_block();
    blocked
}

/// Reads orders until the leash closes.
fn read_orders(mut leash: File, sender: &Sender<GuardEvent>) {
    let mut orders = [0; 16];
    loop {
        let length = match leash.read(&mut orders) {
            Ok(0) => break,
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for order in &orders[..length] {
            let event = match *order {
                super::TERMINATE => GuardEvent::Terminate,
                super::KILL => GuardEvent::Kill,
                super::SKIP_LINGER => GuardEvent::SkipLinger,
                _ => continue,
            };
            let _ = sender.send(event);
        }
    }
    let _ = sender.send(GuardEvent::Orphaned);
}

/// Orders the end when the lease expires.
fn watch_lease(lease: &LeaseFile, sender: &Sender<GuardEvent>) {
    loop {
        match lease.left() {
            Duration::ZERO => break,
            left => thread::sleep(left.min(LEASE_POLL)),
        }
    }
    let _ = sender.send(GuardEvent::Kill);
}

/// Reaps the program and everything that was adopted.
fn reap(program: Pid, sender: &Sender<GuardEvent>) {
    let mut flags = None;
    let mut ended = None;
    loop {
        let reaped = waitpid(None::<Pid>, flags);
        if let Some(status) = ended.take() {
            flags = None;
            let _ = sender.send(GuardEvent::Ended(status, reaped == Err(Errno::ECHILD)));
        }
        match reaped {
            Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..))) if pid == program => {
                // Sent below, with the flag.
                ended = Some(status);
                flags = Some(WaitPidFlag::WNOHANG);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    let _ = sender.send(GuardEvent::AllEnded);
}
