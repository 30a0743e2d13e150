//! The processes of an agent's tool calls. An interrupt must end them before it is acknowledged (decision 15).
//!
//! Agents may acknowledge an interrupt while a command is still running, or leave it running in the background. The
//! adapters therefore find the processes below the agent's guard, and end those that the turn has started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{ProcessHandle, ProcessId, ProcessInfo};

/// Marks an MCP server, even if the program executes another one, as `npx` does.
pub const MCP_SERVER_VARIABLE: &str = "PILOTHOUSE_MCP_SERVER";

/// How long processes may take to end after the agent has ended its turn. Most agents end them.
const GRACE: Duration = Duration::from_millis(500);
/// After a turn that left a call open, how long no process may run, because the agent may be about to start its
/// command.
const QUIET: Duration = Duration::from_millis(300);
/// How long killed processes may take to disappear.
const LIMIT: Duration = Duration::from_secs(5);
/// Interval between checks.
const PERIOD: Duration = Duration::from_millis(20);

/// The kernel holds a process, so that it cannot be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("failed to end the processes of a tool call")]
pub struct StillRunning;

/// Tracks the processes that the tool calls of a turn start.
///
/// These are all processes below the agent's guard that did not exist when the turn began, whatever their group,
/// session or parent. Exceptions are the agent's MCP servers, which live as long as the agent.
#[derive(Debug)]
pub struct ToolProcesses {
    handle: ProcessHandle,
    /// Command lines of the agent's MCP servers.
    servers: Vec<String>,
    before: BTreeSet<ProcessId>,
    /// Whether a tool was called in this turn.
    called: bool,
}

impl ToolProcesses {
    /// Tracks the processes that `handle` controls. `servers` are the command lines of the agent's MCP servers.
    pub fn new(handle: ProcessHandle, servers: Vec<String>) -> Self {
        let mut this = Self { handle, servers, before: BTreeSet::new(), called: false };
        this.turn_begins();
        this
    }

    /// Running processes do not belong to the turn's calls.
    pub fn turn_begins(&mut self) {
        self.before = self.handle.processes().iter().map(|process| process.id).collect();
        self.called = false;
    }

    /// Begins the first call of a turn. Earlier processes of MCP servers are their own workers; later ones belong to
    /// calls.
    pub fn call_begins(&mut self) {
        if !std::mem::replace(&mut self.called, true) {
            let all = self.handle.processes();
            let servers = self.below_servers(&all);
            self.before.extend(servers);
        }
    }

    /// The running processes of the turn's calls.
    pub fn running(&self) -> Vec<ProcessId> {
        let all = self.handle.processes();
        let mut running: Vec<_> = all.iter().filter(|process| process.is_alive()).map(|p| p.id).collect();
        running.retain(|id| !self.before.contains(id));
        if !running.is_empty() {
            let servers = if self.called { self.servers_in(&all) } else { self.below_servers(&all) };
            running.retain(|id| !servers.contains(id));
        }
        running
    }

    pub fn kill(&self) {
        self.handle.kill_processes(&self.running());
    }

    /// Waits until no process is running. Processes get a moment to end, and are then killed. `open`: a call of the
    /// turn has no result, so its command may be about to start.
    pub async fn end(&self, open: bool) -> Result<(), StillRunning> {
        let began = Instant::now();
        let mut last_seen = began;
        loop {
            let running = self.running();
            let now = Instant::now();
            if running.is_empty() {
                if !open || now.duration_since(last_seen) >= QUIET {
                    return Ok(());
                }
            } else {
                last_seen = now;
                if now.duration_since(began) >= LIMIT {
                    return Err(StillRunning);
                }
                if now.duration_since(began) >= GRACE {
                    self.handle.kill_processes(&running);
                }
            }
            sleep(PERIOD).await;
        }
    }

    /// The MCP servers, recognised by their mark or command line, without the processes that they started.
    fn servers_in(&self, all: &[ProcessInfo]) -> BTreeSet<ProcessId> {
        let marked: BTreeSet<i32> =
            all.iter().map(|process| process.id.pid()).filter(|pid| self.is_marked(*pid)).collect();
        let roots = all
            .iter()
            .filter(|process| marked.contains(&process.id.pid()) && !marked.contains(&process.parent));
        roots.map(|process| process.id).collect()
    }

    /// The MCP servers and everything that they started.
    fn below_servers(&self, all: &[ProcessInfo]) -> BTreeSet<ProcessId> {
        let roots = self.servers_in(all);
        let mut below: BTreeMap<i32, ProcessId> = BTreeMap::new();
        // Parents come before their children.
        for process in all {
            if roots.contains(&process.id) || below.contains_key(&process.parent) {
                below.insert(process.id.pid(), process.id);
            }
        }
        below.into_values().collect()
    }

    fn is_marked(&self, pid: i32) -> bool {
        // The environment of another user's process may not be readable. Then the command line identifies the server.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let marked = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(MCP_SERVER_VARIABLE.as_bytes()));
        marked || {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            self.servers.iter().any(|server| line.contains(server.as_str()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Stdio;

    use super::*;
    use crate::process::{Ending, Group, Guard};

    /// A shell that plays an agent: it executes its input.
    fn agent() -> (Group, tokio::process::ChildStdin) {
        let mut launch = Guard::GroupAlone.command("/bin/sh", Ending::default()).unwrap();
        launch
            .command()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut group = launch.spawn().unwrap();
        let input = group.stdin().unwrap();
        (group, input)
    }

    async fn run(input: &mut tokio::process::ChildStdin, line: &str) {
        use tokio::io::AsyncWriteExt as _;
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn appears(path: &Path) {
        let waiting = async {
            while !path.exists() {
                sleep(PERIOD).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    }

    #[tokio::test]
    async fn turn_end_kills_only_processes_started_in_the_turn() {
        let dir = tempfile::tempdir().unwrap();
        let (group, mut input) = agent();
        run(&mut input, &format!("cd {}; sleep 301 & touch before", dir.path().display())).await;
        appears(&dir.path().join("before")).await;
        let mut tools = ToolProcesses::new(group.handle(), Vec::new());
        tools.turn_begins();
        assert_eq!(tools.running(), []);
        // If only the command were killed, its script would start the next one.
        run(&mut input, "setsid sh -c 'trap \"\" TERM; touch begun; sleep 302; touch late' &").await;
        appears(&dir.path().join("begun")).await;
        assert!(!tools.running().is_empty());
        tools.end(true).await.unwrap();
        assert_eq!(tools.running(), []);
        assert!(!dir.path().join("late").exists());
        let left = group.handle().processes();
        assert!(left.iter().any(ProcessInfo::is_alive), "processes from before the turn continue");
    }

    #[tokio::test]
    async fn command_that_starts_after_the_turn_end_is_killed_too() {
        let dir = tempfile::tempdir().unwrap();
        let (group, mut input) = agent();
        let tools = ToolProcesses::new(group.handle(), Vec::new());
        let ending = tokio::spawn(async move { tools.end(true).await });
        run(
            &mut input,
            &format!("cd {}; sh -c 'touch begun; sleep 303; touch late' &", dir.path().display()),
        )
        .await;
        ending.await.unwrap().unwrap();
        assert!(!group.handle().processes().iter().any(ProcessInfo::is_alive));
        assert!(!dir.path().join("late").exists());
    }

    #[tokio::test]
    async fn mcp_servers_survive_and_their_call_processes_end() {
        let dir = tempfile::tempdir().unwrap();
        let (group, mut input) = agent();
        let mut tools = ToolProcesses::new(group.handle(), vec!["named-server --of test".into()]);
        run(&mut input, &format!("cd {}", dir.path().display())).await;
        let server = |name: &str| {
            format!(
                "sleep 304 & touch {name}; until [ -e go ]; do sleep 0.02; done; \
            (touch {name}-called; exec sleep 305) & wait"
            )
        };
        // One is identified by its mark, the other by its command line.
        let marked = server("marked");
        run(&mut input, &format!("{MCP_SERVER_VARIABLE}=1 sh -c '{marked}' &")).await;
        run(&mut input, &format!("sh -c '{}' named-server --of test &", server("named"))).await;
        for name in ["marked", "named"] {
            appears(&dir.path().join(name)).await;
        }
        tools.call_begins();
        std::fs::write(dir.path().join("go"), "").unwrap();
        for name in ["marked-called", "named-called"] {
            appears(&dir.path().join(name)).await;
        }
        tools.end(false).await.unwrap();
        let left: Vec<_> = group.handle().processes().into_iter().filter(ProcessInfo::is_alive).collect();
        let mut commands: Vec<_> = left
            .iter()
            .map(|process| std::fs::read_to_string(format!("/proc/{}/cmdline", process.id.pid())).unwrap())
            .map(|line| line.trim_end_matches('\0').replace('\0', " "))
            .collect();
        commands.retain(|command| command.starts_with("sleep 30"));
        assert_eq!(commands, ["sleep 304", "sleep 304"], "the servers and their own workers live");
    }
}
