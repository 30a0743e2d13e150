//! Redacts text and output that arrive in pieces, even if a secret is split between them.

use super::Redactor;
use super::search::Scan;

/// Redacts one stream of text. Holds back only a suffix that may begin a secret, until more text follows.
#[derive(Default)]
pub struct RedactedStream {
    redactor: Redactor,
    /// `None` until a search was needed.
    scan: Option<Scan>,
}

impl std::fmt::Debug for RedactedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedactedStream").finish_non_exhaustive()
    }
}

impl RedactedStream {
    pub(super) const fn new(redactor: Redactor) -> Self {
        Self { redactor, scan: None }
    }

    /// Returns the text that can be released.
    pub fn push(&mut self, piece: &str) -> String {
        let scan = match &mut self.scan {
            Some(scan) => scan,
            None => match self.redactor.search() {
                Some(search) => self.scan.insert(Scan::new(search)),
                None => return piece.to_owned(),
            },
        };
        scan.read(piece);
        let mut clean = String::with_capacity(piece.len());
        scan.emit(scan.settled(), &mut clean);
        clean
    }

    /// Returns the text that was held back.
    pub fn end(&mut self) -> String {
        let mut clean = String::new();
        if let Some(mut scan) = self.scan.take() {
            scan.rest(&mut clean);
        }
        clean
    }
}

/// Redacts output that arrives in bytes. A character that is split between two pieces stays whole, and invalid bytes are replaced.
#[derive(Debug, Default)]
pub struct RedactedOutput {
    stream: RedactedStream,
    /// The beginning of a character, between two pieces.
    undecoded: Vec<u8>,
}

impl RedactedOutput {
    pub(super) const fn new(redactor: Redactor) -> Self {
        Self { stream: RedactedStream::new(redactor), undecoded: Vec::new() }
    }

    /// Returns the text that can be released.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.undecoded.extend_from_slice(bytes);
        let complete = self.undecoded.len() - incomplete_end(&self.undecoded);
        let text = String::from_utf8_lossy(&self.undecoded[..complete]).into_owned();
        self.undecoded.drain(..complete);
        self.stream.push(&text)
    }

    /// Returns the text that was held back.
    pub fn end(&mut self) -> String {
        let undecoded = std::mem::take(&mut self.undecoded);
        let mut text = self.stream.push(&String::from_utf8_lossy(&undecoded));
        text.push_str(&self.stream.end());
        text
    }
}

/// Length of the incomplete character at the end.
fn incomplete_end(bytes: &[u8]) -> usize {
    let Some(last) = bytes.utf8_chunks().last() else { return 0 };
    match std::str::from_utf8(last.invalid()) {
        Err(error) if error.error_len().is_none() => last.invalid().len(),
        _ => 0,
    }
}
