//! The guard: a process between an agent and a program that it runs, which ends the program with all its descendants.
//!
//! A process group is not sufficient, because a process can leave it with `setsid`. The guard adopts orphans below it
//! (`PR_SET_CHILD_SUBREAPER`), so that they remain its descendants. It ends all descendants when the program ends, when
//! it is ordered to, and when its starter has ended for any reason, which closes a pipe, its *leash* (decision 15). It
//! exits when no process is left, with the program's exit status.
//!
//! It applies its [`Confinement`](super::Confinement) to the program, and not to itself.
//!
//! The guard is a subcommand of the host program, which passes the arguments after [`VERB`] to [`run`] before it does
//! anything else. The guard cannot end processes that something else starts for the agent (a system service, `at`, a
//! container engine), or that its user may not signal (`sudo`). Outside Linux there is no adoption, and the guard
//! ends the process group.

mod end;
mod lock;
mod options;
mod watch;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use self::lock::Lock;
use self::options::GuardOptions;
use self::watch::{EventSources, GuardEvent};
use super::lease::LeaseFile;

/// The subcommand of the host program: `guard [options] -- <program> [arguments…]`.
pub const VERB: &str = "guard";

/// Order on the leash: ask the program's process group to end.
pub(super) const TERMINATE: u8 = b't';
/// Order on the leash: kill everything now.
pub(super) const KILL: u8 = b'k';
/// Order on the leash: do not let leftovers linger after the program has ended.
pub(super) const SKIP_LINGER: u8 = b'h';

/// A shell's exit codes for a program that cannot be executed, or that does not exist.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a program, and exits like the program once no process of it is left. `arguments` follow the subcommand.
///
/// Options:
///
/// - `--leash <descriptor>`: a pipe that closes when the process which started this one ends.
/// - `--user <uid:gid:home>`: the user that the program runs as.
/// - `--confine <JSON>`: the program's [`Confinement`](super::Confinement).
/// - `--lease <file>`: a lease ([`LeaseFile`]) whose expiry ends everything.
/// - `--lock <file>`: a file to keep locked while any process of the program runs.
/// - `--grace <ms>`: how long the program may take to end on its own after the leash has closed.
/// - `--linger <ms>`: how long leftover processes may run after the program has ended.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let started = GuardOptions::read(arguments).and_then(|options| {
        // A signal to the starter's process group must not end the guard too early.
        let _ = setsid();
        become_subreaper()?;
        let expiry = options.lease.as_deref().map(LeaseFile::open).transpose()?;
        if expiry.as_ref().is_some_and(|lease| lease.left().is_zero()) {
            return Err(io::Error::other("its lease has expired"));
        }
        let lock = options.lock.as_deref().map(Lock::take).transpose()?;
        Ok((options, expiry, lock))
    });
    let (options, expiry, _lock) = match started {
        Ok(started) => started,
        Err(error) => {
            eprintln!("failed to guard a program: {error}");
            return CANNOT_RUN.into();
        }
    };
    let program = match start(&options) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{} cannot be run: {error}", options.program.display());
            return if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }.into();
        }
    };
    let GuardOptions { leash, grace, linger, .. } = options;
    let Ok(events) = (EventSources { program, leash, expiry }).start() else {
        // No thread could be started, and a program must not run without a guard.
        end::kill_below(program, &mut BTreeSet::new());
        return CANNOT_RUN.into();
    };
    Guarded { program, events, status: None, all_ended: false }.supervise(grace, linger)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn become_subreaper() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// In a separate process group, so that signals to that group do not reach the guard.
fn start(options: &GuardOptions) -> io::Result<Pid> {
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    let mut command = Command::new(&options.program);
    command.args(&options.arguments).process_group(0);
    if let Some(user) = &options.user {
        user.apply_to(&mut command)?;
    }
    let child = match &options.confinement {
        Some(confinement) => confinement.spawn(command)?,
        None => command.spawn()?,
    };
    // The program must be the only holder of the streams, so that the other side sees when it closes them.
    let _ = dup2_stdin(&nothing);
    let _ = dup2_stdout(&nothing);
    let _ = dup2_stderr(&nothing);
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

struct Guarded {
    program: Pid,
    events: Receiver<GuardEvent>,
    status: Option<WaitStatus>,
    /// Whether no descendant of this process is left.
    all_ended: bool,
}

enum StopReason {
    /// The program has ended, and its leftovers are gone or may not linger.
    ProgramEnded,
    /// The process that started this one has ended.
    Orphaned,
    /// An order or the lease.
    Ordered,
}

impl Guarded {
    fn supervise(mut self, grace: Duration, linger: Duration) -> ExitCode {
        match self.wait(linger) {
            StopReason::Orphaned if self.status.is_none() && !grace.is_zero() => {
                self.terminate();
                let until = Instant::now() + grace;
                while self.status.is_none()
                    && let Some(event) = self.next(until)
                    && !matches!(event, GuardEvent::Kill)
                {}
            }
            StopReason::ProgramEnded | StopReason::Orphaned | StopReason::Ordered => {}
        }
        if !self.all_ended {
            self.end_all();
        }
        end::exit_like(self.status)
    }

    /// Waits until the program has ended and its leftovers had their time, or until all processes must end.
    fn wait(&mut self, linger: Duration) -> StopReason {
        let mut skips_linger = linger.is_zero();
        while self.status.is_none() || !skips_linger {
            let event = match self.status {
                None => self.events.recv().ok().map(|event| self.record(event)),
                Some(_) => self.next(Instant::now() + linger),
            };
            match event {
                Some(GuardEvent::Orphaned) => return StopReason::Orphaned,
                Some(GuardEvent::Kill) => return StopReason::Ordered,
                Some(GuardEvent::Terminate) => self.terminate(),
                Some(GuardEvent::SkipLinger) => skips_linger = true,
                Some(GuardEvent::Ended(_, true) | GuardEvent::AllEnded) | None => {
                    return StopReason::ProgramEnded;
                }
                Some(GuardEvent::Ended(_, false)) => {}
            }
        }
        StopReason::ProgramEnded
    }

    /// The next event until then. `None` if there is none.
    fn next(&mut self, until: Instant) -> Option<GuardEvent> {
        match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(event) => Some(self.record(event)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn record(&mut self, event: GuardEvent) -> GuardEvent {
        match &event {
            GuardEvent::Ended(status, last) => (self.status, self.all_ended) = (Some(*status), *last),
            GuardEvent::AllEnded => self.all_ended = true,
            GuardEvent::Orphaned | GuardEvent::Kill | GuardEvent::Terminate | GuardEvent::SkipLinger => {}
        }
        event
    }

    fn terminate(&self) {
        if self.status.is_none() {
            let _ = killpg(self.program, Signal::SIGTERM);
        }
    }

    /// Kills all descendants of this process until none is left.
    fn end_all(&mut self) {
        let deadline = Instant::now() + end::LIMIT;
        let (mut known, mut pause) = (BTreeSet::new(), end::FIRST_PAUSE);
        while !self.all_ended && Instant::now() < deadline {
            let more = end::kill_below(self.program, &mut known);
            pause = if more { end::FIRST_PAUSE } else { (pause * 2).min(end::MAX_PAUSE) };
            let until = Instant::now() + pause;
            while !self.all_ended && self.next(until).is_some() {}
        }
    }
}
