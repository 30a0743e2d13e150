//! What a guard waits for, each on a thread of its own.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// What happened.
pub(super) enum Happened {
    /// The leash has ended: whoever started this is gone.
    Alone,
    /// All of it is to end now.
    Kill,
    /// The program is to be asked to end.
    Terminate,
    /// What is left after the program need not be waited for.
    Hush,
    /// The program has ended; whether it left nothing behind.
    Ended(WaitStatus, bool),
    /// Nothing is left below this process, nor will there be.
    Nobody,
}

/// What is watched.
pub(super) struct Watched {
    pub(super) program: Pid,
    pub(super) leash: Option<File>,
}

impl Watched {
    pub(super) fn start(self) -> io::Result<Receiver<Happened>> {
        let (tell, told) = mpsc::channel();
        let Self { program, leash } = self;
        let signals = hold_signals();
        if let Some(leash) = leash {
            let tell = tell.clone();
            aside(move || hear(leash, &tell))?;
        }
        let asked = tell.clone();
        aside(move || {
            while let Ok(_signal) = signals.wait() {
                let _ = asked.send(Happened::Alone);
            }
        })?;
        aside(move || reap(program, &tell))?;
        Ok(told)
    }
}

/// Small: a guard stands beside each program.
fn aside(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(64 * 1024).spawn(work).map(drop)
}

/// Signals that would end this process, and leave behind what it guards. Held when the program has started: it would inherit it.
fn hold_signals() -> SigSet {
    let mut held = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        held.add(signal);
    }
    // Each thread that is started from here on inherits it. It fails for no set of signals.
    let _ = held.thread_block();
    held
}

/// Takes orders until the leash ends.
fn hear(mut leash: File, tell: &Sender<Happened>) {
    let mut orders = [0; 16];
    loop {
        let length = match leash.read(&mut orders) {
            Ok(0) => break,
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for order in &orders[..length] {
            let happened = match *order {
                super::TERMINATE => Happened::Terminate,
                super::KILL => Happened::Kill,
                super::HUSH => Happened::Hush,
                _ => continue,
            };
            let _ = tell.send(happened);
        }
    }
    let _ = tell.send(Happened::Alone);
}

/// Takes note of the end of the program and of everything that was adopted.
fn reap(program: Pid, tell: &Sender<Happened>) {
    let mut flags = None;
    let mut ended = None;
    loop {
        let reaped = waitpid(None::<Pid>, flags);
        if let Some(status) = ended.take() {
            flags = None;
            let _ = tell.send(Happened::Ended(status, reaped == Err(Errno::ECHILD)));
        }
        match reaped {
            Ok(status @ (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..))) if pid == program => {
                // It is told together with whether anything is left.
                ended = Some(status);
                flags = Some(WaitPidFlag::WNOHANG);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    let _ = tell.send(Happened::Nobody);
}
