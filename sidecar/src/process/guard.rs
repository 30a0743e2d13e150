//! Stands between a sidecar and a process of its agent: leads the process group, and ends it as a whole when the sidecar is
//! gone. Unlike the guard of validations it leaves standard input to the program: it watches a pipe of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, close, getpgrp, getpid, setpgid};

use super::AgentUser;

/// The verb of the program: `hold <descriptor> <user> <program> <arguments…>`.
pub const VERB: &str = "hold";

/// The verb that takes on the agent's user and becomes another program: `as <user> <program> <arguments…>`.
pub const VERB_AS: &str = "as";

/// In place of a user: who the guard runs as itself.
pub(super) const SAME_USER: &str = "-";

/// The exit code of a shell for what it cannot run.
const CANNOT_RUN: u8 = 126;

/// This program, also when its file was replaced meanwhile.
pub fn program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// Runs a program and ends as it does. When the other end of the descriptor is closed before that, the whole group ends.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let started = start(arguments);
    let (mut child, mut leash) = match started {
        Ok(started) => started,
        Err(error) => {
            eprintln!("the program cannot be run: {error}");
            return CANNOT_RUN.into();
        }
    };
    std::thread::spawn(move || {
        let mut nothing = [0; 64];
        while matches!(leash.read(&mut nothing), Ok(1..)) {}
        let _ = killpg(getpgrp(), Signal::SIGKILL);
    });
    match child.wait() {
        Ok(status) => {
            let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into()
        }
        Err(_) => CANNOT_RUN.into(),
    }
}

/// Takes on the agent's user and becomes a program. Returns only when it cannot.
pub fn become_and_run(arguments: &[OsString]) -> ExitCode {
    let [user, program, rest @ ..] = arguments else { return CANNOT_RUN.into() };
    let mut command = Command::new(program);
    command.args(rest);
    let error = match take_on(user, &mut command) {
        Ok(()) => command.exec(),
        Err(error) => error,
    };
    eprintln!("{}: {error}", program.display());
    CANNOT_RUN.into()
}

fn take_on(user: &OsStr, command: &mut Command) -> io::Result<()> {
    let user: AgentUser = text(user).and_then(|user| user.parse().ok()).ok_or_else(wrong)?;
    // Further groups of the sidecar are dropped with its user.
    command.uid(user.uid().as_raw()).gid(user.gid().as_raw());
    no_new_privileges()
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this verb is for the sidecar alone")
}

fn start(arguments: &[OsString]) -> io::Result<(Child, File)> {
    let [descriptor, user, program, rest @ ..] = arguments else { return Err(wrong()) };
    let descriptor: i32 =
        text(descriptor).and_then(|d| d.parse().ok()).filter(|d| *d > 2).ok_or_else(wrong)?;
    if getpgrp() != getpid() {
        // Nobody else's group is to end with it.
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    }
    let leash = File::open(format!("/dev/fd/{descriptor}"))?;
    // The program is not to inherit it; the file that was opened closes by itself.
    close(descriptor)?;
    let mut command = Command::new(program);
    command.args(rest);
    if user != SAME_USER {
        take_on(user, &mut command)?;
    }
    Ok((command.spawn()?, leash))
}

fn text(argument: &OsStr) -> Option<&str> {
    argument.to_str()
}

/// No program that this one starts can gain what it lacks, by `sudo` or a file's own user.
#[cfg(target_os = "linux")]
fn no_new_privileges() -> io::Result<()> {
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

#[cfg(not(target_os = "linux"))]
fn no_new_privileges() -> io::Result<()> {
    Ok(())
}
