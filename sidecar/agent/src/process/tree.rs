//! Lists the descendants of a process, in any group or session.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process id together with its start time, because the system reuses ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    pid: i32,
    /// Clock ticks since the boot of the machine.
    started: u64,
}

impl ProcessId {
    /// Valid while the process runs.
    pub const fn pid(self) -> i32 {
        self.pid
    }

    /// Sends a signal, unless the process has ended.
    pub(super) fn signal(self, signal: Signal) {
        if ProcessInfo::read(self.pid).is_some_and(|now| now.id == self) {
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessInfo {
    pub id: ProcessId,
    /// The process that started this one, or that adopted it.
    pub parent: i32,
    state: char,
}

impl ProcessInfo {
    fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// Parses `/proc/…/stat`. The second field, the name, is in parentheses and may contain any characters.
    fn parse(pid: i32, stat: &str) -> Option<Self> {
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // The 22nd field. The parent is the fourth.
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { id: ProcessId { pid, started }, parent, state })
    }

    /// A zombie cannot run any more: only its exit status is left.
    pub const fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't') || !self.is_alive()
    }
}

/// All descendants of a process, parents before children. Empty on systems without `/proc`.
pub(super) fn list_below(root: Pid) -> Vec<ProcessInfo> {
    let mut children: BTreeMap<i32, Vec<ProcessInfo>> = BTreeMap::new();
    for process in processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut all = children.remove(&root.as_raw()).unwrap_or_default();
    let mut at = 0;
    while let Some(parent) = all.get(at).map(|process| process.id.pid) {
        all.extend(children.remove(&parent).unwrap_or_default());
        at += 1;
    }
    all
}

pub(super) fn below(root: Pid) -> Vec<Pid> {
    list_below(root).into_iter().map(|process| Pid::from_raw(process.id.pid)).collect()
}

/// Stops all descendants of a process. Each round finds the processes that started meanwhile; a stopped process starts
/// none.
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

/// The youngest first, so that parents find their children running.
pub(super) fn continue_below(root: Pid) {
    for pid in below(root).into_iter().rev() {
        let _ = kill(pid, Signal::SIGCONT);
    }
}

/// Whether a process is this one or its descendant. On systems without `/proc`, every process counts.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn is_below_this(pid: i32) -> bool {
    let this = nix::unistd::getpid().as_raw();
    std::iter::successors(Some(pid), |pid| parent_of(*pid)).take_while(|pid| *pid > 0).any(|pid| pid == this)
}

/// Whether a process is this one or its descendant. On systems without `/proc`, every process counts.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn is_below_this(_: i32) -> bool {
    true
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn parent_of(pid: i32) -> Option<i32> {
    ProcessInfo::read(pid).map(|process| process.parent)
}

fn processes() -> impl Iterator<Item = ProcessInfo> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| ProcessInfo::read(entry.file_name().to_str()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn process_with_any_name_is_parsed() {
        let fields = "7 12 12 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 8124 1000";
        for name in ["bash", "a) b (c)"] {
            let read = ProcessInfo::parse(12, &format!("12 ({name}) S {fields}")).unwrap();
            assert_eq!((read.parent, read.id), (7, ProcessId { pid: 12, started: 8124 }), "{name}");
            assert!(read.is_alive() && !read.is_stopped());
        }
        assert!(!ProcessInfo::parse(12, &format!("12 (x) Z {fields}")).unwrap().is_alive());
        assert_eq!(ProcessInfo::parse(12, "nonsense"), None);
        assert_eq!(ProcessInfo::parse(12, "12 (x) S 1 2"), None);
    }

    fn state(pid: Pid) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    }

    #[test]
    fn child_is_a_descendant_and_parent_is_not() {
        let mut child = Command::new("/bin/sleep").arg("300").stdin(Stdio::null()).spawn().unwrap();
        let below = is_below_this(i32::try_from(child.id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(below && is_below_this(nix::unistd::getpid().as_raw()));
        assert!(!is_below_this(nix::unistd::getppid().as_raw()) && !is_below_this(1) && !is_below_this(0));
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn descendants_in_any_session_are_stopped_and_continued() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "setsid sleep 300 & wait"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let root = Pid::from_raw(i32::try_from(child.id()).unwrap());
        until("it has a descendant", || below(root).len() == 1);
        let escaped = below(root)[0];
        assert!(below(nix::unistd::getpid()).contains(&escaped), "regardless of the processes in between");
        stop_below(root);
        until("it is stopped", || state(escaped) == Some('T'));
        assert_ne!(state(root), Some('T'), "the process itself continues");
        continue_below(root);
        until("it goes on", || state(escaped) == Some('S'));
        kill(escaped, Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
