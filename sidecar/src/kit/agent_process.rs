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
use crate::redaction::{RedactedOutput, Redactor};

/// Most bytes that are read for a log chunk.
const PIECE: usize = 16 * 1024;
/// In bytes per run, so that an agent that prints endlessly does not fill the journal.
const MAX_LOG: usize = 4 * 1024 * 1024;
/// The last chunk of a log that reached its limit.
const LEFT_OUT: &str = "[the agent printed more than is kept]";
/// In bytes.
const MAX_LAST_WORDS: usize = 4 * 1024;
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

/// What an agent prints. It is redacted as a whole, because a chunk can end within a secret.
#[derive(Debug)]
struct AgentLog {
    output: RedactedOutput,
    /// Bytes of the next chunk.
    piece: Vec<u8>,
    /// Bytes that were published or left out.
    logged: usize,
    last_words: Arc<Mutex<String>>,
}

impl AgentLog {
    fn new(redactor: &Redactor, last_words: Arc<Mutex<String>>) -> Self {
        Self { output: redactor.output(), piece: Vec::new(), logged: 0, last_words }
    }

    /// The next chunk, if there is one. Beyond the limit of the log, only the last words are updated.
    fn take(&mut self, is_over: bool) -> Option<String> {
        let mut content = self.output.push(&self.piece);
        self.piece.clear();
        if is_over {
            content.push_str(&self.output.end());
        }
        if content.is_empty() {
            return None;
        }
        self.remember(&content);
        if self.logged > MAX_LOG {
            return None;
        }
        self.logged += content.len();
        Some(if self.logged > MAX_LOG { LEFT_OUT.to_owned() } else { content })
    }

    fn remember(&self, content: &str) {
        let Ok(mut words) = self.last_words.lock() else { return };
        words.push_str(content);
        let start = words.ceil_char_boundary(words.len().saturating_sub(MAX_LAST_WORDS));
        words.drain(..start);
    }
}

/// Publishes output of the agent in chunks. Reads to the end also beyond the limit, or the agent would block on a full pipe.
async fn log(mut output: impl AsyncRead + Unpin, events: EventSink, last_words: Arc<Mutex<String>>) {
    let mut log = AgentLog::new(events.redactor(), last_words);
    let mut buffer = vec![0; PIECE];
    let mut is_over = false;
    while !is_over {
        let reading = output.read(&mut buffer[..PIECE - log.piece.len()]);
        let read = if log.piece.is_empty() {
            Some(reading.await)
        } else {
            tokio::time::timeout(GATHER, reading).await.ok()
        };
        match read {
            Some(Ok(length @ 1..)) => {
                log.piece.extend_from_slice(&buffer[..length]);
                if log.piece.len() < PIECE {
                    continue;
                }
            }
            Some(_) => is_over = true,
            None => {}
        }
        if let Some(content) = log.take(is_over)
            && events.emit(RawEvent::LogChunk { stream: "agent".into(), content }).await.is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::timeout;

    use super::*;
    use crate::spool::tests::{bodies, open};

    const SECRET: &str = "sk-fake-0123456789";

    /// Events that keep [`SECRET`] secret.
    fn events(dir: &Path) -> EventSink {
        let events = EventSink::new(open(dir));
        events.keep_secret(SECRET);
        events
    }

    async fn published(events: &EventSink) -> String {
        bodies(events.spool()).await.iter().filter_map(|body| body["content"].as_str()).collect()
    }

    #[tokio::test]
    async fn secret_across_two_chunks_is_not_published() {
        let dir = tempfile::tempdir().unwrap();
        let events = events(dir.path());
        let text = format!("{}{SECRET} is the key\n", "x".repeat(PIECE - 5));
        log(text.as_bytes(), events.clone(), Arc::default()).await;
        assert_eq!(bodies(events.spool()).await.len(), 2);
        assert_eq!(published(&events).await, text.replace(SECRET, "[secret]"));
    }

    #[tokio::test]
    async fn unfinished_line_ends_before_a_secret_and_between_characters() {
        let dir = tempfile::tempdir().unwrap();
        let events = events(dir.path());
        let (mut agent, output) = tokio::io::duplex(1024);
        let logging = tokio::spawn(log(output, events.clone(), Arc::default()));
        let text = format!("Zoë has {SECRET}\n").into_bytes();
        for (part, expected) in [(0..3, "Zo"), (3..15, "Zoë has ")] {
            agent.write_all(&text[part]).await.unwrap();
            let until_published = async {
                while published(&events).await != expected {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(20), until_published).await.expect(expected);
        }
        agent.write_all(&text[15..]).await.unwrap();
        drop(agent);
        logging.await.unwrap();
        assert_eq!(published(&events).await, "Zoë has [secret]\n");
    }

    #[test]
    fn output_beyond_the_limit_is_announced_once_and_last_words_stay_current() {
        let words = Arc::<Mutex<String>>::default();
        let mut log = AgentLog::new(&Redactor::default(), Arc::clone(&words));
        let whole = MAX_LOG / PIECE;
        let mut published = Vec::new();
        for _ in 0..whole + 3 {
            log.piece.extend(vec![b'x'; PIECE]);
            published.extend(log.take(false));
        }
        log.piece.extend(b"\nthe real cause\n");
        published.extend(log.take(true));
        assert_eq!(published.len(), whole + 1);
        assert_eq!(published.last().unwrap(), LEFT_OUT);
        let words = words.lock().unwrap();
        assert!(words.len() <= MAX_LAST_WORDS && words.ends_with("\nthe real cause\n"), "{words}");
    }
}
