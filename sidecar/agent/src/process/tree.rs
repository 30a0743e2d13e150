//! Processes below a process, in whatever group or session they are.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Everything below a process, parents before children. Nothing where the system has no `/proc`.
pub(super) fn below(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut all = children.remove(&root.as_raw()).unwrap_or_default();
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        all.extend(children.remove(&parent).unwrap_or_default());
        at += 1;
    }
    all.into_iter().map(Pid::from_raw).collect()
}

/// Stops everything below a process. What is started while they are looked for is found in the next round; a process that is
/// stopped starts nothing.
pub(super) fn stop_below(root: Pid) {
    let mut stopped = BTreeSet::new();
    loop {
        let found: Vec<_> = below(root).into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _ = kill(pid, Signal::SIGSTOP);
            stopped.insert(pid);
        }
    }
}

/// Lets everything below a process go on, the youngest first: a parent finds its children at work.
pub(super) fn go_on_below(root: Pid) {
    for pid in below(root).into_iter().rev() {
        let _ = kill(pid, Signal::SIGCONT);
    }
}

/// Every process with its parent.
fn processes() -> impl Iterator<Item = (i32, i32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        Some((pid, parent_in(&String::from_utf8_lossy(&stat))?))
    })
}

/// The parent's id in `/proc/…/stat`: the second word after the name, which stands in brackets and may hold anything.
fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("12 (bash) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a) b (c)) S 9 1 2"), Some(9));
        assert_eq!(parent_in("nonsense"), None);
    }

    fn state(pid: Pid) -> Option<char> {
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
    fn what_is_below_a_process_in_whatever_session_is_found_stopped_and_goes_on() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "setsid sleep 300 & wait"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let root = Pid::from_raw(i32::try_from(child.id()).unwrap());
        until("it has a descendant", || below(root).len() == 1);
        let escaped = below(root)[0];
        assert!(below(nix::unistd::getpid()).contains(&escaped), "whatever lies in between");
        stop_below(root);
        until("it is stopped", || state(escaped) == Some('T'));
        assert_ne!(state(root), Some('T'), "the process itself goes on");
        go_on_below(root);
        until("it goes on", || state(escaped) == Some('S'));
        kill(escaped, Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
