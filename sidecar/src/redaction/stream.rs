//! Redacts a text that arrives in pieces, even if a secret is split between them.

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
