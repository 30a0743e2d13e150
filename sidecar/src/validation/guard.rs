//! Stands between a sidecar and a command that it runs. The command has a process group of its own, so that it can be ended
//! with everything that it started; the guard leads that group, and ends it when the sidecar is gone, however that died
//! (ruling 15).

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::getpgrp;

/// The verb of the program.
pub const VERB: &str = "guard";

/// The exit code of a shell for what it cannot run.
const CANNOT_RUN: u8 = 126;

/// This program, also when its file was replaced meanwhile.
pub(crate) fn program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// Runs a command by the shell and ends as it does. When its standard input ends before that, so does the whole group.
pub fn run(command: &OsStr) -> ExitCode {
    let spawned = Command::new("/bin/sh").arg("-c").arg(command).stdin(Stdio::null()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            eprintln!("the shell cannot be run: {error}");
            return CANNOT_RUN.into();
        }
    };
    std::thread::spawn(|| {
        let mut nothing = [0; 64];
        while matches!(io::stdin().read(&mut nothing), Ok(1..)) {}
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
