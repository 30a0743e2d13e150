//! Stands between a sidecar and the program of an agent, and ends everything that the agent ever started.
//!
//! An agent's tools run in sessions of their own: killing its process group, or the agent itself, leaves them running.
//! The keeper adopts what loses its parent, so that everything the agent started stays below it, and ends all of it
//! when the agent ends, when its own standard input ends, and with that when the sidecar dies, however it dies
//! (ruling 15).

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, setsid};

/// The verb of the program.
pub const VERB: &str = "agent";

/// How long an agent may take to end by itself when its input has ended.
const GRACE: Duration = Duration::from_secs(2);
/// How long what it left behind may take to go; it is killed, so that only a stuck kernel call holds it.
const LAST: Duration = Duration::from_secs(5);
/// The exit codes of a shell for what it cannot run, and for what is not there.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a program, passes its standard input on, and ends as it does. When its own input ends before that, the program
/// is told to end, and killed soon after with all that it started.
pub fn run(command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else {
        eprintln!("usage: pilothouse-sidecar {VERB} <program> [arguments]");
        return CANNOT_RUN.into();
    };
    // A signal to the group of whoever started it must not end it before it has done its work. One that leads a group
    // already needs no new one.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
        eprintln!("what the agent leaves behind cannot be ended: {error}");
        return CANNOT_RUN.into();
    }
    let spawned = Command::new(program).args(arguments).stdin(Stdio::piped()).process_group(0).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{}: {error}", program.display());
            return if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }.into();
        }
    };
    let agent = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let (happened, happens) = mpsc::channel();
    forward(child.stdin.take(), happened.clone());
    reap(agent, happened);
    let code = wait(agent, &happens);
    end_all();
    u8::try_from(code).unwrap_or(1).into()
}

/// What the keeper waits for.
enum Happened {
    /// The sidecar has nothing more to say, or is gone.
    InputEnded,
    /// The program ended with this code, as a shell tells it.
    Ended(i32),
}

/// Passes the input on, and tells when it has ended.
fn forward(to: Option<ChildStdin>, happened: mpsc::Sender<Happened>) {
    std::thread::spawn(move || {
        let mut to = to;
        let mut buffer = vec![0; 64 * 1024];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    // A program that takes no more input is about to end; what comes is read all the same, to see its end.
                    if to.as_mut().is_some_and(|pipe| pipe.write_all(&buffer[..length]).is_err()) {
                        to = None;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        drop(to);
        let _ = happened.send(Happened::InputEnded);
    });
}

/// Takes note of the end of the program and of everything that was adopted.
fn reap(agent: Pid, happened: mpsc::Sender<Happened>) {
    std::thread::spawn(move || {
        loop {
            let (pid, code) = match waitpid(None::<Pid>, None) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, 128 + signal as i32),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return,
            };
            if pid == agent {
                let _ = happened.send(Happened::Ended(code));
            }
        }
    });
}

/// Waits for the end of the program, and brings it about when the input has ended.
fn wait(agent: Pid, happens: &mpsc::Receiver<Happened>) -> i32 {
    match happens.recv() {
        Ok(Happened::Ended(code)) => return code,
        Ok(Happened::InputEnded) => {}
        Err(_) => return 1,
    }
    let _ = kill(agent, Signal::SIGTERM);
    match happens.recv_timeout(GRACE) {
        Ok(Happened::Ended(code)) => code,
        _ => 128 + Signal::SIGKILL as i32,
    }
}

/// Kills everything below this process, until nothing is left.
fn end_all() {
    let deadline = Instant::now() + LAST;
    loop {
        let below = descendants_of(getpid());
        for pid in &below {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        if below.is_empty() || Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The parent of each process.
fn parents() -> HashMap<Pid, Pid> {
    let mut parents = HashMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return parents };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_in(&stat) {
            parents.insert(Pid::from_raw(pid), parent);
        }
    }
    parents
}

/// The parent's id in `/proc/…/stat`: the second word after the name, which stands in brackets and may hold anything.
fn parent_in(stat: &str) -> Option<Pid> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}

fn descendants_of(root: Pid) -> Vec<Pid> {
    let parents = parents();
    let below = |pid: &Pid| {
        let mut at = *pid;
        // A chain of parents is short; the bound guards against ids that were reused while they were read.
        for _ in 0..1000 {
            match parents.get(&at) {
                Some(parent) if *parent == root => return true,
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (bash) S 7 12 12 0"), Some(Pid::from_raw(7)));
        assert_eq!(parent_in("12 (a) b (c)) S 9 1 2"), Some(Pid::from_raw(9)));
        assert_eq!(parent_in("nonsense"), None);
    }

    #[test]
    fn what_is_below_a_process_is_found() {
        let mut child = Command::new("/bin/sh").arg("-c").arg("sleep 30 & wait").spawn().unwrap();
        let shell = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let until = Instant::now() + Duration::from_secs(10);
        let mut below = Vec::new();
        while below.is_empty() && Instant::now() < until {
            below = descendants_of(shell);
            std::thread::yield_now();
        }
        assert_eq!(below.len(), 1, "the sleep");
        assert!(descendants_of(getpid()).contains(&below[0]), "whatever lies in between");
        kill(below[0], Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
