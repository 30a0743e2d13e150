//! Output of a command: the end in memory, and if it is long, the complete output in a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::output_text::{MAX_BYTES, MAX_LINES, clean, newlines, tail};

/// Interval between progress events.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
/// Most bytes of a progress event. A person does not read more in that time.
pub(super) const MAX_PROGRESS_BYTES: usize = 16 * 1024;

pub(super) struct Output<'a> {
    dir: &'a Path,
    max_kept: u64,
    /// The end of the output, at least as much as is shown.
    end: Vec<u8>,
    bytes: u64,
    newlines: u64,
    /// Whether `end` contains the complete output.
    complete: bool,
    kept: Option<(PathBuf, File)>,
    keeping_failed: bool,
}

pub(super) struct Collected {
    pub(super) text: String,
    pub(super) lines: u64,
    pub(super) truncated: bool,
    pub(super) whole: Option<PathBuf>,
}

impl<'a> Output<'a> {
    pub(super) fn new(dir: &'a Path, max_kept: u64) -> Self {
        Self {
            dir,
            max_kept,
            end: Vec::new(),
            bytes: 0,
            newlines: 0,
            complete: true,
            kept: None,
            keeping_failed: false,
        }
    }

    pub(super) async fn push(&mut self, chunk: &[u8]) {
        let before = self.bytes;
        self.bytes += chunk.len() as u64;
        self.newlines += newlines(chunk);
        self.end.extend_from_slice(chunk);
        let long = self.bytes > MAX_BYTES as u64 || self.newlines > MAX_LINES as u64;
        match &mut self.kept {
            Some((_, file)) if before < self.max_kept => {
                let room = usize::try_from(self.max_kept - before).unwrap_or(usize::MAX);
                self.keeping_failed |= file.write_all(&chunk[..chunk.len().min(room)]).await.is_err();
            }
            None if long && !self.keeping_failed => self.keep().await,
            Some(_) | None => {}
        }
        if self.end.len() > 4 * MAX_BYTES {
            self.end.drain(..self.end.len() - 2 * MAX_BYTES);
            self.complete = false;
        }
    }

    /// Starts a file with the output so far, of which `end` is not truncated yet.
    async fn keep(&mut self) {
        let path = self.dir.join(format!("bash-{}.log", uuid::Uuid::now_v7().simple()));
        let opened = async {
            fs::create_dir_all(self.dir).await?;
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).await?;
            file.write_all(&self.end).await?;
            Ok::<_, std::io::Error>(file)
        };
        match opened.await {
            Ok(file) => self.kept = Some((path, file)),
            Err(error) => {
                tracing::warn!(%error, "failed to keep the complete output of a command");
                self.keeping_failed = true;
            }
        }
    }

    pub(super) async fn finish(mut self) -> Collected {
        if let Some((_, file)) = &mut self.kept {
            self.keeping_failed |= file.flush().await.is_err();
        }
        let ends_within_a_line = self.end.last().is_some_and(|byte| *byte != b'\n');
        let text = clean(&String::from_utf8_lossy(&self.end));
        let shown = tail(text.trim_end_matches('\n'));
        Collected {
            truncated: !self.complete || shown.len() < text.trim_end_matches('\n').len(),
            text: shown.to_owned(),
            lines: self.newlines + u64::from(ends_within_a_line),
            whole: self.kept.filter(|_| !self.keeping_failed).map(|(path, _)| path),
        }
    }
}

/// Emits new output in pieces of whole characters.
pub(super) struct Progress<'a> {
    to: &'a mpsc::UnboundedSender<String>,
    /// Most bytes of a piece. Of more, only the end is emitted.
    most: usize,
    waiting: Vec<u8>,
    emitted_at: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(to: &'a mpsc::UnboundedSender<String>, most: usize) -> Self {
        Self { to, most, waiting: Vec::new(), emitted_at: Instant::now() }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.waiting.extend_from_slice(chunk);
        if self.waiting.len() > 4 * self.most {
            self.waiting.drain(..self.waiting.len() - 2 * self.most);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| self.emitted_at + PROGRESS_INTERVAL)
    }

    pub(super) fn emit(&mut self, last: bool) {
        // An incomplete character waits for its remaining bytes.
        let whole = match std::str::from_utf8(&self.waiting) {
            Err(error) if !last && error.error_len().is_none() => error.valid_up_to(),
            _ => self.waiting.len(),
        };
        let rest = self.waiting.split_off(whole);
        let piece = std::mem::replace(&mut self.waiting, rest);
        self.emitted_at = Instant::now();
        if piece.is_empty() {
            return;
        }
        let skipped = piece.len().saturating_sub(self.most);
        // Half a line can be half a secret.
        let line = if skipped > 0 { piece[skipped..].iter().position(|byte| *byte == b'\n') } else { None };
        let skipped = line.map_or(skipped, |at| skipped + at + 1);
        let text = clean(&String::from_utf8_lossy(&piece[skipped..]));
        let text = if skipped > 0 { format!("[…]\n{text}") } else { text };
        // There may be no receiver.
        _ = self.to.send(text);
    }
}
