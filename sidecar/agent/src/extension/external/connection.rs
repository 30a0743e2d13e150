//! The connection to a program, and its open requests.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::Notify;
use super::protocol::{FromProgram, Hello, PROTOCOL, Request, ToProgram};
use crate::process::{Ending, Program, log_complaints};

/// Longest line that a program may write.
const MAX_LINE: u64 = 16 * 1024 * 1024;
/// Most lines that may wait for the program to read them.
const MAX_WAITING: usize = 256;
/// After this number of consecutive timeouts, a program counts as dead.
const MAX_SLOW: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("it is gone")]
    Gone,
    #[error("it took longer than {} s", .0.as_secs_f64())]
    Slow(Duration),
    #[error("{0}")]
    Refused(String),
}

pub(super) struct Connection {
    shared: Arc<Shared>,
    next: AtomicU64,
}

struct Shared {
    name: String,
    notify: Notify,
    slow: AtomicU32,
    /// `None` once the program has ended.
    alive: Mutex<Option<Alive>>,
}

struct Alive {
    lines: mpsc::Sender<String>,
    waiting: HashMap<u64, Waiting>,
    /// Dropping it ends the program and its descendants.
    _program: AbortOnDropHandle<()>,
}

struct Waiting {
    answer: oneshot::Sender<Result<Value, String>>,
    progress: Option<mpsc::UnboundedSender<String>>,
}

impl Connection {
    /// The receiver yields the program's hello.
    pub(super) fn open(
        name: &str,
        program: &Program,
        notify: Notify,
    ) -> io::Result<(Self, oneshot::Receiver<Hello>)> {
        let mut group = program.start(Ending::default(), [Stdio::piped(), Stdio::piped(), Stdio::piped()])?;
        let input = group.stdin().ok_or_else(|| io::Error::other("a process without input"))?;
        let output = group.stdout().ok_or_else(|| io::Error::other("a process without output"))?;
        let complaints = group.stderr();
        let (lines, waiting_lines) = mpsc::channel(MAX_WAITING);
        let (hello, said) = oneshot::channel();
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            notify,
            slow: AtomicU32::new(0),
            alive: Mutex::new(Some(Alive {
                lines,
                waiting: HashMap::new(),
                _program: group.wait_in_background(),
            })),
        });
        tokio::spawn(write(input, waiting_lines));
        tokio::spawn(read(shared.clone(), output, hello));
        if let Some(complaints) = complaints {
            tokio::spawn(log_complaints(name.to_owned(), complaints));
        }
        Ok((Self { shared, next: AtomicU64::new(1) }, said))
    }

    /// Sends hello, and waits for the program's hello.
    pub(super) async fn handshake(
        &self,
        cwd: &Path,
        hello: oneshot::Receiver<Hello>,
        timeout: Duration,
    ) -> Result<Hello, String> {
        self.shared
            .send_line(&ToProgram::Hello { protocol: PROTOCOL, cwd })
            .map_err(|error| error.to_string())?;
        match tokio::time::timeout(timeout, hello).await {
            Ok(Ok(hello)) if hello.protocol == PROTOCOL => Ok(hello),
            Ok(Ok(hello)) => Err(format!("it speaks protocol {}, this is {PROTOCOL}", hello.protocol)),
            Ok(Err(_)) => Err("it ended, or wrote another message first".to_owned()),
            Err(_) => Err(format!("it took longer than {} s", timeout.as_secs_f64())),
        }
    }

    /// Sends a request and waits for the answer. Dropping the future cancels the request.
    pub(super) async fn request(
        &self,
        request: Request<'_>,
        timeout: Duration,
        progress: Option<mpsc::UnboundedSender<String>>,
    ) -> Result<Value, RequestError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        match &mut *self.shared.alive() {
            Some(alive) => _ = alive.waiting.insert(id, Waiting { answer, progress }),
            None => return Err(RequestError::Gone),
        }
        let _unless_answered = Cancel { shared: &self.shared, id };
        self.shared.send_line(&ToProgram::Request { id, request })?;
        match tokio::time::timeout(timeout, answered).await {
            Ok(Ok(answer)) => {
                self.shared.slow.store(0, Ordering::Relaxed);
                answer.map_err(RequestError::Refused)
            }
            Ok(Err(_)) => Err(RequestError::Gone),
            Err(_) => {
                self.shared.record_timeout(timeout);
                Err(RequestError::Slow(timeout))
            }
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.shared.alive().is_some()
    }

    pub(super) fn end(&self) {
        drop(self.shared.alive().take());
    }

    pub(super) fn notice(&self, text: &str) {
        self.shared.notice(text);
    }
}

impl Drop for Connection {
    /// Ends the program, which the reading task would otherwise keep running.
    fn drop(&mut self) {
        self.end();
    }
}

/// Cancels a request whose caller is gone.
struct Cancel<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        let unanswered =
            self.shared.alive().as_mut().is_some_and(|alive| alive.waiting.remove(&self.id).is_some());
        if unanswered {
            // If the program does not read, other requests detect it.
            _ = self.shared.send_line(&ToProgram::Cancel { id: self.id });
        }
    }
}

impl Shared {
    fn alive(&self) -> std::sync::MutexGuard<'_, Option<Alive>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_line(&self, line: &ToProgram<'_>) -> Result<(), RequestError> {
        let line = serde_json::to_string(line).map_err(|error| RequestError::Refused(error.to_string()))?;
        let sender = self.alive().as_ref().map(|alive| alive.lines.clone()).ok_or(RequestError::Gone)?;
        match sender.try_send(line) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.mark_closed("it reads nothing");
                Err(RequestError::Gone)
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(RequestError::Gone),
        }
    }

    fn record_timeout(&self, timeout: Duration) {
        let times = self.slow.fetch_add(1, Ordering::Relaxed) + 1;
        if times >= MAX_SLOW {
            self.mark_closed("it does not answer");
        } else {
            self.notice(&format!(
                "it took longer than {} s to answer and was passed over",
                timeout.as_secs_f64()
            ));
        }
    }

    /// Marks the program as dead, and publishes one notice.
    fn mark_closed(&self, why: &str) {
        let alive = self.alive().take();
        if alive.is_some() {
            self.notice(&format!("{why}; it is not asked any more"));
        }
    }

    fn notice(&self, text: &str) {
        (self.notify)(format!("extension {}: {text}", self.name));
    }

    fn handle_line(&self, line: &[u8], hello: &mut Option<oneshot::Sender<Hello>>) -> Result<(), String> {
        let line =
            serde_json::from_slice(line).map_err(|error| format!("it wrote an invalid message ({error})"))?;
        match line {
            FromProgram::Hello(said) => {
                let hello = hello.take().ok_or("it sent hello twice")?;
                // The caller may be gone, because the start took too long.
                _ = hello.send(said);
            }
            FromProgram::Answer { id, error, answer } => {
                let waiting = self.alive().as_mut().and_then(|alive| alive.waiting.remove(&id));
                // A late answer has no receiver.
                if let Some(waiting) = waiting {
                    _ = waiting.answer.send(error.map_or(Ok(answer), Err));
                }
            }
            FromProgram::Progress { id, text } => {
                if let Some(alive) = self.alive().as_ref()
                    && let Some(progress) =
                        alive.waiting.get(&id).and_then(|waiting| waiting.progress.as_ref())
                {
                    _ = progress.send(text);
                }
            }
            FromProgram::Notice { text } => self.notice(&text),
        }
        Ok(())
    }
}

async fn write(mut input: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if input.write_all(line.as_bytes()).await.is_err() || input.flush().await.is_err() {
            // The program has ended. The reading task reports it.
            return;
        }
    }
}

async fn read(shared: Arc<Shared>, output: impl AsyncRead + Unpin, hello: oneshot::Sender<Hello>) {
    let mut output = BufReader::new(output);
    let mut hello = Some(hello);
    let mut line = Vec::new();
    let why = loop {
        line.clear();
        match (&mut output).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break "it ended".to_owned(),
            Ok(_) if !line.ends_with(b"\n") && line.len() as u64 >= MAX_LINE => {
                break format!("it wrote a line of more than {} MiB", MAX_LINE >> 20);
            }
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => {
                if let Err(why) = shared.handle_line(&line, &mut hello) {
                    break why;
                }
            }
        }
    };
    shared.mark_closed(&why);
}
