//! The agent's process: a selected environment, standard error as log, and a guaranteed end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_wire::RawEvent;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use crate::adapter::EventSink;
use crate::process::{Group, ProcessHandle, Processes, ToolProcesses};

/// Limit of a log chunk, in bytes.
const PIECE: usize = 16 * 1024;
/// In bytes per run, so that an agent that prints endlessly does not fill the journal.
const MAX_LOG: usize = 4 * 1024 * 1024;
/// How long to collect log output before it is published.
const GATHER: Duration = Duration::from_millis(300);
/// How long an agent may take to end on its own after its input was closed.
const GRACE: Duration = Duration::from_secs(3);

/// A running agent. Dropping it kills it together with everything that it started.
pub(crate) struct AgentProcess {
    group: Group,
    /// Processes that the calls of the current turn have started.
    pub(crate) tools: ToolProcesses,
    /// Publish the log.
    logs: Vec<JoinHandle<()>>,
    last_words: Arc<Mutex<String>>,
    ended: bool,
}

/// How an agent is started.
pub(crate) struct AgentProgram<'a> {
    pub(crate) program: &'a str,
    pub(crate) arguments: &'a [String],
    /// In addition to those of every process.
    pub(crate) variables: &'a BTreeMap<String, String>,
    pub(crate) folder: &'a Path,
    /// Command lines of the agent's MCP servers.
    pub(crate) servers: Vec<String>,
}

pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl AgentProcess {
    /// The error is a sentence for people.
    pub(crate) fn start(
        agent: AgentProgram<'_>,
        processes: &Processes,
        events: EventSink,
    ) -> Result<(Self, Pipes), String> {
        let AgentProgram { program, arguments, variables, folder, servers } = agent;
        let cannot = |e: std::io::Error| format!("failed to start the agent `{program}`: {e}");
        let mut guarded = processes.command(program).map_err(cannot)?;
        let command = guarded.command().args(arguments).current_dir(folder);
        command.envs(variables).envs(processes.secrets());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = guarded.spawn().map_err(cannot)?;
        let pipes = (group.stdin(), group.stdout(), group.stderr());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(format!("the agent `{program}` ended at once"));
        };
        let last_words = Arc::new(Mutex::new(String::new()));
        let logs = vec![tokio::spawn(log(stderr, events, Arc::clone(&last_words)))];
        let tools = ToolProcesses::new(group.handle(), servers);
        Ok((Self { group, tools, logs, last_words, ended: false }, Pipes { stdin, stdout }))
    }

    /// Publishes more output as the log. The last words stay those of standard error.
    pub(crate) fn log_output(&mut self, output: ChildStdout, events: EventSink) {
        self.logs.push(tokio::spawn(log(output, events, Arc::default())));
    }

    pub(crate) fn handle(&self) -> ProcessHandle {
        self.group.handle()
    }

    /// Includes all descendants, and waits for their end.
    pub(crate) async fn kill(&mut self) {
        if !self.ended {
            self.group.handle().kill();
            self.wait().await;
        }
    }

    /// Waits for the end after the input was closed, and kills the agent if it takes too long.
    pub(crate) async fn end(mut self) {
        if !self.ended {
            self.group.handle().resume();
            let _ = tokio::time::timeout(GRACE, self.wait()).await;
            self.kill().await;
        }
        self.log_is_published().await;
    }

    /// A clause for people about how the agent ended, with the end of its log. Waits for the end of its output.
    pub(crate) async fn exit_reason(&mut self) -> String {
        let status = tokio::time::timeout(GRACE, self.wait()).await.ok().flatten();
        self.log_is_published().await;
        let how = status.unwrap_or_else(|| "it closed its output".to_owned());
        let words = self.last_words.lock().map(|words| words.clone()).unwrap_or_default();
        let words =
            words.lines().map(str::trim).rfind(|line| !line.is_empty()).map(crate::kit::json::one_line);
        words.map_or(how.clone(), |words| format!("{how}; its last words: {words}"))
    }

    /// Waits until its log is published. Leftover processes may keep the output open, so the wait is limited.
    async fn log_is_published(&mut self) {
        for log in std::mem::take(&mut self.logs) {
            let _ = tokio::time::timeout(GRACE, log).await;
        }
    }

    /// The exit status. `None` if it is unknown. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> Option<String> {
        let status = self.group.wait().await;
        self.ended = true;
        status.ok().map(|status| status.to_string())
    }
}

/// The values of an agent's variables that must not be published.
pub(crate) fn secrets(variables: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let words = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "HEADERS"];
    let is_secret = move |name: &str| words.iter().any(|word| name.to_ascii_uppercase().contains(word));
    variables.iter().filter(move |(name, _)| is_secret(name)).map(|(_, value)| value.as_str())
}

/// Publishes output of the agent in chunks.
async fn log(mut stderr: impl AsyncRead + Unpin, events: EventSink, last_words: Arc<Mutex<String>>) {
    let mut logged = 0;
    let mut buffer = vec![0; PIECE];
    let mut piece: Vec<u8> = Vec::new();
    let mut open = true;
    while open {
        let gathering = !piece.is_empty() && piece.len() < PIECE;
        let read = if gathering {
            tokio::time::timeout(GATHER, stderr.read(&mut buffer)).await.ok()
        } else if piece.is_empty() {
            Some(stderr.read(&mut buffer).await)
        } else {
            None
        };
        match read {
            Some(Ok(length @ 1..)) => {
                piece.extend_from_slice(&buffer[..length]);
                continue;
            }
            Some(_) => open = false,
            None => {}
        }
        if piece.is_empty() {
            continue;
        }
        // An incomplete line waits for the next chunk, so that no secret is split.
        let end = if open && piece.len() < PIECE {
            piece.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)
        } else {
            piece.len()
        };
        let end = if end == 0 { piece.len() } else { end };
        let content = String::from_utf8_lossy(&piece[..end]).into_owned();
        piece.drain(..end);
        if let Ok(mut words) = last_words.lock() {
            words.clone_from(&content);
        }
        logged += content.len();
        let full = logged > MAX_LOG;
        let content = if full { "[the agent printed more than is kept]".to_owned() } else { content };
        if logged - content.len() <= MAX_LOG
            && events.emit(RawEvent::LogChunk { stream: "agent".into(), content }).await.is_err()
        {
            return;
        }
        if full {
            // Continue to read, or the agent would block on a full pipe.
            while matches!(stderr.read(&mut buffer).await, Ok(1..)) {}
            return;
        }
    }
}
