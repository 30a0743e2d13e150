//! The Claude Code process: lines in, lines out. Dropping it leaves nothing running.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::kit::byte_budget::{ByteBudget, Held};
use crate::kit::lines::{Line, MAX_LINE_BYTES, SKIPPED, read_line};
use crate::process::{Ending, Group, ProcessHandle, Processes, ToolProcesses};

/// How long Claude Code may take to save its conversation and end.
const GRACE: Duration = Duration::from_secs(2);
/// How long it may take to read its last lines before its input is closed.
const LAST_INPUT: Duration = Duration::from_millis(200);
/// In bytes. More than is reported of standard error, so that the reported part never begins within a secret.
const LAST_WORDS: usize = 8192;
/// How long Claude Code may take to read a line.
const WRITE_LIMIT: Duration = Duration::from_mins(1);
/// Lines that wait for the driver: enough for bursts, and bounded if the spool is slow.
const LINES: usize = 256;
/// In bytes, of all lines that wait. A larger line waits alone.
const LINE_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) enum Output {
    /// A message of the protocol.
    Line(Value),
    /// A line that is not JSON.
    Noise(String),
}

/// An output that uses its bytes of the budget until it is dropped.
#[derive(Debug)]
pub(super) struct BufferedOutput {
    pub(super) output: Output,
    _held: Held,
}

/// A running process. On drop, it is asked to end, and soon after killed with everything that it started.
#[derive(Debug)]
pub(super) struct Process {
    group: Group,
    /// Processes that the calls of the current turn have started.
    pub(super) tools: ToolProcesses,
    /// Lines for the process. The driver does not wait until they are read.
    input: mpsc::UnboundedSender<Vec<u8>>,
    writer: Option<AbortOnDropHandle<()>>,
    lines: mpsc::Receiver<(Vec<u8>, Held)>,
    last_words: Arc<Mutex<Vec<u8>>>,
    readers: Vec<AbortOnDropHandle<()>>,
}

impl Process {
    pub(super) fn start(
        processes: &Processes,
        binary: &Path,
        arguments: &[String],
        folder: &Path,
        environment: &BTreeMap<OsString, OsString>,
        servers: Vec<String>,
    ) -> std::io::Result<Self> {
        let mut guarded = processes.command_ending(binary, Ending { grace: GRACE, ..Ending::default() })?;
        guarded
            .command()
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = guarded.spawn()?;
        let (input, unwritten) = mpsc::unbounded_channel();
        let writer = group
            .stdin()
            .map(|stdin| AbortOnDropHandle::new(tokio::spawn(write_lines(stdin, unwritten, group.handle()))));
        let (sender, lines) = mpsc::channel(LINES);
        let last_words = Arc::new(Mutex::new(Vec::new()));
        let mut readers = Vec::new();
        if let Some(stdout) = group.stdout() {
            let reading = read_lines(stdout, sender, ByteBudget::new(LINE_BYTES));
            readers.push(AbortOnDropHandle::new(tokio::spawn(reading)));
        }
        if let Some(stderr) = group.stderr() {
            let reading = read_last_words(stderr, Arc::clone(&last_words));
            readers.push(AbortOnDropHandle::new(tokio::spawn(reading)));
        }
        let tools = ToolProcesses::new(group.handle(), servers);
        Ok(Self { group, tools, input, writer, lines, last_words, readers })
    }

    /// The next line. `None` at the end of the output. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<BufferedOutput> {
        loop {
            let (line, held) = self.lines.recv().await?;
            if let Some(output) = output_of(&line) {
                return Some(BufferedOutput { output, _held: held });
            }
        }
    }

    /// If the process does not accept input, it is about to end, which its output will show.
    pub(super) fn write(&self, line: &Value) {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        let _ = self.input.send(bytes);
    }

    /// No process of it is running when this returns.
    pub(super) async fn end(self) -> Ended {
        let Self { group, input, writer, lines, last_words, readers, .. } = self;
        drop((input, lines));
        if let Some(writer) = writer {
            let _ = timeout(LAST_INPUT, writer).await;
        }
        let status = group.end(GRACE).await;
        if let Err(error) = &status {
            warn!(%error, "failed to get the agent's exit status");
        }
        // The error output closes with the process.
        for reader in readers {
            let _ = timeout(Duration::from_secs(1), reader).await;
        }
        Ended { status: status.ok(), last_words: said(&last_words) }
    }
}

fn said(last_words: &Mutex<Vec<u8>>) -> Option<String> {
    let kept = last_words.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&kept);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[derive(Debug)]
pub(super) struct Ended {
    pub status: Option<ExitStatus>,
    /// The end of its standard error.
    pub last_words: Option<String>,
}

/// `None` for a blank line.
fn output_of(line: &[u8]) -> Option<Output> {
    match serde_json::from_slice::<Value>(line) {
        Ok(value) if value.is_object() => Some(Output::Line(value)),
        _ => {
            let noise = String::from_utf8_lossy(line).trim().to_owned();
            (!noise.is_empty()).then_some(Output::Noise(noise))
        }
    }
}

/// Waits while the lines that were not taken use up the budget, so that the process waits as well.
async fn read_lines(
    stdout: impl AsyncRead + Unpin,
    sender: mpsc::Sender<(Vec<u8>, Held)>,
    budget: ByteBudget,
) {
    let mut reader = BufReader::new(stdout);
    while let Ok(Some(line)) = read_line(&mut reader, MAX_LINE_BYTES).await {
        let line = match line {
            Line::Whole(line) | Line::Unfinished(line) => line,
            Line::TooLong => SKIPPED.as_bytes().to_vec(),
        };
        let held = tokio::select! {
            held = budget.take(line.len()) => held,
            () = sender.closed() => return,
        };
        if sender.send((line, held)).await.is_err() {
            return;
        }
    }
}

/// Ends a process that does not read, because it cannot be controlled.
async fn write_lines(
    mut stdin: ChildStdin,
    mut lines: mpsc::UnboundedReceiver<Vec<u8>>,
    process: ProcessHandle,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            stdin.write_all(&line).await?;
            stdin.flush().await
        };
        match timeout(WRITE_LIMIT, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(%error, "failed to write to the agent");
                return;
            }
            Err(_) => {
                warn!(limit = ?WRITE_LIMIT, "the agent does not read its input, and is ended");
                process.kill();
                return;
            }
        }
    }
}

async fn read_last_words(mut stderr: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..length]);
        let excess = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    const NUMBERS: usize = 100;
    const LENGTH: usize = 100_000;

    /// Writes numbered lines into a pipe, and counts those that were read or fit into the pipe.
    fn flood(written: &Arc<AtomicUsize>) -> tokio::io::DuplexStream {
        let (mut output, reader) = tokio::io::duplex(LENGTH);
        let written = Arc::clone(written);
        tokio::spawn(async move {
            for number in 0..NUMBERS {
                let line = serde_json::json!({ "number": number, "text": "x".repeat(LENGTH) });
                if output.write_all(format!("{line}\n\n").as_bytes()).await.is_err() {
                    return;
                }
                written.fetch_add(1, Ordering::SeqCst);
            }
        });
        reader
    }

    /// The clock is paused: time passes only when no task can continue.
    #[tokio::test(start_paused = true)]
    async fn flood_of_claude_code_waits_and_arrives_in_order() {
        let written = Arc::new(AtomicUsize::new(0));
        let (sender, mut lines) = mpsc::channel(LINES);
        let budget = ByteBudget::new(10 * LENGTH);
        tokio::spawn(read_lines(flood(&written), sender, budget.clone()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Nine lines in the channel, one with the reader, one in the pipe.
        let waits = written.load(Ordering::SeqCst);
        assert!((8..=12).contains(&waits), "{waits}");
        let mut numbers = Vec::new();
        while let Some((line, _held)) = lines.recv().await {
            assert!(budget.used() <= 10 * LENGTH);
            match output_of(&line) {
                Some(Output::Line(line)) => numbers.push(line["number"].as_u64().unwrap()),
                Some(Output::Noise(noise)) => panic!("{noise}"),
                None => {}
            }
        }
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn line_beyond_the_limit_arrives() {
        let written = Arc::new(AtomicUsize::new(0));
        let (sender, mut lines) = mpsc::channel(LINES);
        let reading = tokio::spawn(read_lines(flood(&written), sender, ByteBudget::new(10)));
        let (first, held) = lines.recv().await.unwrap();
        assert!(first.len() > LENGTH);
        drop((held, lines));
        reading.await.unwrap();
    }

    /// The clock is paused: the minute passes as soon as the pipe is full.
    #[tokio::test(start_paused = true)]
    async fn process_that_does_not_read_is_killed_after_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let (binary, arguments) = (Path::new("/bin/sleep"), ["30".to_owned()]);
        let processes = Processes::unguarded();
        let started =
            Process::start(&processes, binary, &arguments, dir.path(), &BTreeMap::new(), Vec::new());
        let mut process = started.unwrap();
        let begun = Instant::now();
        process.write(&Value::String("x".repeat(LENGTH)));
        process.write(&Value::String("x".repeat(LENGTH)));
        // Its output ends with it.
        assert!(process.next().await.is_none());
        let waited = begun.elapsed();
        assert!(waited >= WRITE_LIMIT && waited < 2 * WRITE_LIMIT, "{waited:?}");
        let status = process.end().await.status.unwrap();
        assert_eq!(status.signal(), Some(9), "it was not killed: {status}");
    }
}
