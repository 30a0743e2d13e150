//! A small shell beside the agent that kills its process groups when the agent dies.
//!
//! It hears which groups there are on a pipe. When the agent ends, by whatever signal, the pipe does too.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

const SCRIPT: &str = r#"
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

static GUARD: Mutex<Guard> = Mutex::new(Guard { shell: None, groups: BTreeSet::new() });

struct Guard {
    shell: Option<Child>,
    groups: BTreeSet<i32>,
}

/// From here on this group dies with the agent.
pub(super) fn watch(group: i32) -> io::Result<()> {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    guard.groups.insert(group);
    guard.tell(&format!("+ {group}\n"))
}

/// This group is gone.
pub(super) fn forget(group: i32) {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.groups.remove(&group) {
        // A guard that is gone is replaced with the next group; until then there is nothing that it could know wrongly.
        _ = guard.say(&format!("- {group}\n"));
    }
}

impl Guard {
    /// Says something to the guard; to a new one that knows every group when the old one is gone.
    fn tell(&mut self, line: &str) -> io::Result<()> {
        if self.say(line).is_ok() {
            return Ok(());
        }
        if let Some(mut gone) = self.shell.take() {
            _ = gone.kill();
            _ = gone.wait();
        }
        // Its own group: what interrupts the agent's terminal must not end it first.
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        self.shell = Some(shell);
        let all: Vec<_> = self.groups.iter().map(|group| format!("+ {group}\n")).collect();
        self.say(&all.concat())
    }

    fn say(&self, lines: &str) -> io::Result<()> {
        let mut pipe = self
            .shell
            .as_ref()
            .and_then(|shell| shell.stdin.as_ref())
            .ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        pipe.write_all(lines.as_bytes())
    }
}
