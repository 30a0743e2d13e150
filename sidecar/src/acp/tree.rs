//! A process with everything that it started, also what gave itself a process group of its own: agents run their shells so.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Stops everything below a process. The process itself goes on: it is the guard that ends the others when the sidecar dies.
pub(super) fn stop_below(guard: Pid) {
    stop_but(guard, BTreeSet::from([guard.as_raw()]));
}

/// Stops a process and all its descendants. What is started while they are looked for is found in the next round; a
/// process that is stopped starts nothing.
pub(super) fn stop(root: Pid) {
    stop_but(root, BTreeSet::new());
}

fn stop_but(root: Pid, mut stopped: BTreeSet<i32>) {
    loop {
        let found: Vec<i32> =
            with_descendants(root).into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
            stopped.insert(pid);
        }
    }
}

/// Lets a stopped process and all its descendants go on, the youngest first: a parent finds its children at work.
pub(super) fn go_on(root: Pid) {
    for pid in with_descendants(root).into_iter().rev() {
        let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
    }
}

/// Kills a process, its group and all its descendants. Stopped first, so that nothing slips away.
pub(super) fn destroy(root: Pid) {
    stop(root);
    let all = with_descendants(root);
    let _ = killpg(root, Signal::SIGKILL);
    for pid in all {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// A process below another, by its id and the time at which it began: an id alone may be somebody else's later.
pub(super) type Known = (i32, String);

/// Everything below a process.
pub(super) fn below(root: Pid) -> Vec<Known> {
    let all = with_descendants(root).into_iter().skip(1);
    all.filter_map(|pid| Some((pid, began(pid)?))).collect()
}

/// Kills those that are still there.
pub(super) fn kill_left(known: &[Known]) {
    for (pid, time) in known {
        if began(*pid).as_ref() == Some(time) {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
    }
}

/// When a process began, in the words of the system.
fn began(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

/// The process and its descendants, parents before children.
fn with_descendants(root: Pid) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut all = vec![root.as_raw()];
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        all.extend(children.remove(&parent).unwrap_or_default());
        at += 1;
    }
    all
}

/// Every process with its parent.
fn processes() -> impl Iterator<Item = (i32, i32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name stands in brackets and may hold anything; after it come the state and the parent.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    fn state(pid: i32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_descendant_with_a_group_of_its_own_is_stopped_goes_on_and_is_killed_with_the_rest() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "setsid sleep 300 & wait"])
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let root = Pid::from_raw(i32::try_from(child.id()).unwrap());
        until("it has a descendant", || with_descendants(root).len() == 2);
        let escaped = with_descendants(root)[1];
        stop(root);
        until("both are stopped", || state(escaped) == Some('T') && state(root.as_raw()) == Some('T'));
        go_on(root);
        until("both go on", || state(escaped) == Some('S') && state(root.as_raw()) == Some('S'));
        destroy(root);
        child.wait().unwrap();
        until("it is gone", || !matches!(state(escaped), Some('S' | 'T' | 'R')));
    }
}
