//! The agent's process: started with a chosen environment, heard on its standard error, and certainly ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_wire::RawEvent;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use super::options::Launch;
use crate::adapter::EventSink;
use crate::process::{Group, Processes};

/// Bytes of a piece of the log.
const PIECE: usize = 16 * 1024;
/// Bytes of log that are told of one run; an agent that prints without end does not fill the journal.
const MOST_LOG: usize = 4 * 1024 * 1024;
/// How long the log is gathered before it is told.
const GATHER: Duration = Duration::from_millis(300);
/// How long an agent may take to end by itself when its input ends.
const GRACE: Duration = Duration::from_secs(3);

/// A running agent. Dropping it kills it, with everything that it started.
pub(super) struct Process {
    group: Group,
    /// Tells its log, until that was waited for.
    log: Option<JoinHandle<()>>,
    last_words: Arc<Mutex<String>>,
    ended: bool,
}

/// Its pipes.
pub(super) struct Pipes {
    /// What it reads.
    pub(super) stdin: ChildStdin,
    /// What it writes.
    pub(super) stdout: ChildStdout,
}

impl Process {
    /// Starts an agent in `folder`, with these variables above the chosen ones. An error is a sentence for a person.
    pub(super) fn start(
        launch: &Launch,
        processes: &Processes,
        variables: &BTreeMap<String, String>,
        folder: &Path,
        events: EventSink,
    ) -> Result<(Self, Pipes), String> {
        let cannot = |e: std::io::Error| format!("the agent `{}` cannot be started: {e}", launch.program);
        let mut guarded = processes.command(&launch.program).map_err(cannot)?;
        let command = guarded.command().args(&launch.arguments).current_dir(folder).envs(variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = guarded.spawn().map_err(cannot)?;
        let pipes = (group.stdin(), group.stdout(), group.stderr());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(format!("the agent `{}` ended at once", launch.program));
        };
        let last_words = Arc::new(Mutex::new(String::new()));
        let log = Some(tokio::spawn(log(stderr, events, Arc::clone(&last_words))));
        Ok((Self { group, log, last_words, ended: false }, Pipes { stdin, stdout }))
    }

    /// Stops it where it is, with everything that it started.
    pub(super) fn pause(&self) {
        self.group.reins().pause();
    }

    /// Lets it go on.
    pub(super) fn resume(&self) {
        self.group.reins().resume();
    }

    /// Kills it, with everything that it started, and waits until it is gone.
    pub(super) async fn kill(&mut self) {
        if !self.ended {
            self.group.reins().kill();
            self.wait().await;
        }
    }

    /// Its input has ended: it may end by itself, and is killed when it does not.
    pub(super) async fn end(mut self) {
        if !self.ended {
            self.resume();
            let _ = tokio::time::timeout(GRACE, self.wait()).await;
            self.kill().await;
        }
        self.log_is_told().await;
    }

    /// How it ended, after its output did: a clause for a person, with its last words.
    pub(super) async fn obituary(&mut self) -> String {
        let status = tokio::time::timeout(GRACE, self.wait()).await.ok().flatten();
        self.log_is_told().await;
        let how = status.unwrap_or_else(|| "it closed its output".to_owned());
        let words = self.last_words.lock().map(|words| words.clone()).unwrap_or_default();
        let words = words.lines().map(str::trim).rfind(|line| !line.is_empty()).map(super::json::one_line);
        words.map_or(how.clone(), |words| format!("{how}; its last words: {words}"))
    }

    /// Waits until what it wrote is told; something that it left behind may hold its output open.
    async fn log_is_told(&mut self) {
        if let Some(log) = self.log.take() {
            let _ = tokio::time::timeout(GRACE, log).await;
        }
    }

    async fn wait(&mut self) -> Option<String> {
        let status = self.group.wait().await;
        self.ended = true;
        status.ok().map(|status| status.to_string())
    }
}

/// Tells what the agent writes on its standard error, gathered in pieces.
async fn log(mut stderr: ChildStderr, events: EventSink, last_words: Arc<Mutex<String>>) {
    let mut told = 0;
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
        // A line that is not complete stays for the next piece, so that no secret is cut in two.
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
        told += content.len();
        let full = told > MOST_LOG;
        let content = if full { "[the agent printed more than is kept]".to_owned() } else { content };
        if told - content.len() <= MOST_LOG
            && events.emit(RawEvent::LogChunk { stream: "agent".into(), content }).await.is_err()
        {
            return;
        }
        if full {
            // Read on, or the agent would stand still at a full pipe.
            while matches!(stderr.read(&mut buffer).await, Ok(1..)) {}
            return;
        }
    }
}
