//! The program that stands between an agent and a program that it runs, and ends everything that this one ever started.
//!
//! A process group is not enough: whoever calls `setsid` leaves it. The guard adopts what loses its parent below it
//! (`PR_SET_CHILD_SUBREAPER`), so that everything stays its descendant, and ends all of it when the program ends, when it is told
//! to, and when whoever started it is gone, however that died: it holds the other end of a pipe, its leash (ruling 15). It is over
//! when nothing is left, and ends as the program did.
//!
//! It is a verb of the host's own program, which calls [`run`] with what follows [`VERB`] before it does anything else. Only what
//! somebody else starts for the agent (a system service, `at`, a container engine) is out of its reach, and what may not be signalled
//! by its user (`sudo`). Elsewhere than on Linux nobody adopts, and it ends the process group.

mod end;
mod orders;
mod watch;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use self::orders::Orders;
use self::watch::{Happened, Watched};

/// The verb of the host's program: `guard [options] -- <program> [arguments…]`.
pub const VERB: &str = "guard";

/// What is written on the leash: ask the program's group to end.
pub(super) const TERMINATE: u8 = b't';
/// What is written on the leash: end all of it now.
pub(super) const KILL: u8 = b'k';
/// What is written on the leash: nobody reads any more what is left once the program has ended.
pub(super) const HUSH: u8 = b'h';

/// The exit codes of a shell for what it cannot run, and for what is not there.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a program, and ends as it does when nothing is left of it. `arguments`: what follows the verb.
///
/// Options: `--leash <descriptor>`, of a pipe whose end is the end of whoever started this; `--user <uid:gid:home>`, who the program
/// runs as; `--grace <ms>`, how long it may take to end by itself when the leash has ended; `--linger <ms>`, how long what it leaves
/// behind may take.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let started = Orders::read(arguments).and_then(|orders| {
        // A signal to the group of whoever started it must not end it before it has done its work.
        let _ = setsid();
        adopt()?;
        Ok(orders)
    });
    let orders = match started {
        Ok(orders) => orders,
        Err(error) => {
            eprintln!("a program cannot be guarded: {error}");
            return CANNOT_RUN.into();
        }
    };
    let program = match start(&orders) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{} cannot be run: {error}", orders.program.display());
            return if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }.into();
        }
    };
    let Orders { leash, grace, linger, .. } = orders;
    match (Watched { program, leash }).start() {
        Ok(happens) => {
            Guarded { program, happens, status: None, nobody: false }.see_through(grace, linger)
        }
        // The system lets nobody start a thread. What nobody watches is not to run.
        Err(_) => {
            end::kill_below(program);
            CANNOT_RUN.into()
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn adopt() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn adopt() -> io::Result<()> {
    Ok(())
}

/// In a group of its own: what it sends to its group does not reach the guard.
fn start(orders: &Orders) -> io::Result<Pid> {
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    let mut command = Command::new(&orders.program);
    command.args(&orders.arguments).process_group(0);
    if let Some(user) = &orders.user {
        user.take_on(&mut command)?;
    }
    let child = command.spawn()?;
    // Its streams are the program's alone: whoever is at their other end sees when that closes them.
    let _ = dup2_stdin(&nothing);
    let _ = dup2_stdout(&nothing);
    let _ = dup2_stderr(&nothing);
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// A program that runs, and what happens with it.
struct Guarded {
    program: Pid,
    happens: Receiver<Happened>,
    /// How it ended.
    status: Option<WaitStatus>,
    /// Nothing is left below this process.
    nobody: bool,
}

/// Why everything is to end.
enum Why {
    /// The program has ended, and nobody is left or needs what is.
    Over,
    /// Whoever started this is gone.
    Alone,
    /// It was told to.
    Told,
}

impl Guarded {
    fn see_through(mut self, grace: Duration, linger: Duration) -> ExitCode {
        match self.wait(linger) {
            Why::Alone if self.status.is_none() && !grace.is_zero() => {
                self.terminate();
                let until = Instant::now() + grace;
                while self.status.is_none()
                    && let Some(happened) = self.next(until)
                    && !matches!(happened, Happened::Kill)
                {}
            }
            Why::Over | Why::Alone | Why::Told => {}
        }
        if !self.nobody {
            self.end_all();
        }
        end::like(self.status)
    }

    /// Waits until the program has ended and what it left had its time, or until somebody wants an end.
    fn wait(&mut self, linger: Duration) -> Why {
        let mut hushed = linger.is_zero();
        while self.status.is_none() || !hushed {
            let happened = match self.status {
                None => self.happens.recv().ok().map(|happened| self.note(happened)),
                Some(_) => self.next(Instant::now() + linger),
            };
            match happened {
                Some(Happened::Alone) => return Why::Alone,
                Some(Happened::Kill) => return Why::Told,
                Some(Happened::Terminate) => self.terminate(),
                Some(Happened::Hush) => hushed = true,
                Some(Happened::Ended(_, true) | Happened::Nobody) | None => return Why::Over,
                Some(Happened::Ended(_, false)) => {}
            }
        }
        Why::Over
    }

    /// What happens until then; none: nothing.
    fn next(&mut self, until: Instant) -> Option<Happened> {
        match self.happens.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(happened) => Some(self.note(happened)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn note(&mut self, happened: Happened) -> Happened {
        match &happened {
            Happened::Ended(status, last) => (self.status, self.nobody) = (Some(*status), *last),
            Happened::Nobody => self.nobody = true,
            Happened::Alone | Happened::Kill | Happened::Terminate | Happened::Hush => {}
        }
        happened
    }

    fn terminate(&self) {
        if self.status.is_none() {
            let _ = killpg(self.program, Signal::SIGTERM);
        }
    }

    /// Kills everything below this process until nothing is left.
    fn end_all(&mut self) {
        let deadline = Instant::now() + end::LIMIT;
        let mut pause = end::FIRST_PAUSE;
        while !self.nobody && Instant::now() < deadline {
            end::kill_below(self.program);
            let until = Instant::now() + pause;
            while !self.nobody && self.next(until).is_some() {}
            pause = (pause * 2).min(end::LONGEST_PAUSE);
        }
    }
}
