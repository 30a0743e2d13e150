//! What a command writes: the end of it in memory, the whole in a file once it is long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::tool::text::{MAX_BYTES, MAX_LINES, clean, newlines, tail};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// The most that is told at once: somebody who watches does not read more.
const TELL_AT_MOST: usize = 16 * 1024;

/// Collects an output.
pub(super) struct Output<'a> {
    dir: &'a Path,
    max_kept: u64,
    /// The end, at least as much as is shown.
    end: Vec<u8>,
    bytes: u64,
    newlines: u64,
    /// Whether all of it is in `end`.
    complete: bool,
    kept: Option<(PathBuf, File)>,
    keeping_failed: bool,
}

/// What was collected.
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

    /// Begins a file with all that there is; `end` still has it.
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
                tracing::warn!(%error, "the whole output of a command cannot be kept");
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

/// Tells what is written while it is written, in pieces that are whole characters.
pub(super) struct Progress<'a> {
    to: &'a mpsc::UnboundedSender<String>,
    waiting: Vec<u8>,
    told: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(to: &'a mpsc::UnboundedSender<String>) -> Self {
        Self { to, waiting: Vec::new(), told: Instant::now() }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.waiting.extend_from_slice(chunk);
        if self.waiting.len() > 4 * TELL_AT_MOST {
            self.waiting.drain(..self.waiting.len() - 2 * TELL_AT_MOST);
        }
    }

    /// When something is to be told next.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| self.told + TELL_EVERY)
    }

    pub(super) fn tell(&mut self, last: bool) {
        // A character that is not complete yet waits for the rest of it.
        let whole = match std::str::from_utf8(&self.waiting) {
            Err(error) if !last && error.error_len().is_none() => error.valid_up_to(),
            _ => self.waiting.len(),
        };
        let rest = self.waiting.split_off(whole);
        let piece = std::mem::replace(&mut self.waiting, rest);
        self.told = Instant::now();
        if piece.is_empty() {
            return;
        }
        let skipped = piece.len().saturating_sub(TELL_AT_MOST);
        let text = clean(&String::from_utf8_lossy(&piece[skipped..]));
        let text = if skipped > 0 { format!("[…]\n{text}") } else { text };
        // Nobody listens: nobody is told.
        _ = self.to.send(text);
    }
}
