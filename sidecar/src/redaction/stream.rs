//! A text that is told in pieces: a secret that is cut in two is one all the same.

use super::Redactor;
use super::search::Scan;

/// One stream of text on its way to be told. Of each piece only that end is held back which may be the beginning of a secret,
/// until what follows says whether it is one.
#[derive(Default)]
pub struct RedactedStream {
    redactor: Redactor,
    /// None: nothing was searched for so far.
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

    /// The next piece: what can be told now.
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
        scan.tell(scan.settled(), &mut clean);
        clean
    }

    /// The stream is over: what was held back.
    pub fn end(&mut self) -> String {
        let mut clean = String::new();
        if let Some(mut scan) = self.scan.take() {
            scan.rest(&mut clean);
        }
        clean
    }
}
