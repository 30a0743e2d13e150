//! Shows those who follow the session the text that the agent is writing (decision 95). Drafts are best effort: they are neither
//! spooled nor repeated, and the complete text follows as an event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_domain::value::DraftKind;
use pilothouse_wire::RawEvent;
use pilothouse_wire::gateway::{DraftResult, SendDraft};
use tokio::sync::Notify;

use crate::broker::Gateway;
use crate::publisher::PublishError;
use crate::redaction::{RedactedStream, Redactor};

/// How long pieces are collected.
const INTERVAL: Duration = Duration::from_millis(150);
/// How often the sidecar asks during a text whether somebody begins to follow the session.
const ASK_INTERVAL: Duration = Duration::from_secs(2);

/// The text that the agent is writing. Clones share it.
#[derive(Clone)]
pub struct Drafts(Arc<Shared>);

struct Shared {
    redactor: Redactor,
    draft: Mutex<Option<Draft>>,
    written: Notify,
    /// The sequence of the last event.
    last_event: AtomicU64,
}

struct Draft {
    kind: DraftKind,
    redacted: RedactedStream,
    /// Without secrets. It ends before the first piece that exceeds the limit of a part.
    text: String,
    is_full: bool,
    sent: usize,
    part: u32,
    /// The sequence of the last event before the text.
    after: u64,
}

impl Drafts {
    pub(crate) fn new(redactor: Redactor) -> Self {
        let (written, last_event) = (Notify::new(), AtomicU64::new(0));
        Self(Arc::new(Shared { redactor, draft: Mutex::default(), written, last_event }))
    }

    /// The next text follows the event with this sequence.
    pub(crate) fn follow_event(&self, sequence: u64) {
        self.0.last_event.fetch_max(sequence, Ordering::Relaxed);
    }

    /// Adds a piece. A piece of another kind begins a new text.
    pub(crate) fn write(&self, kind: DraftKind, piece: &str) {
        let mut current = self.draft();
        let same = current.take().filter(|draft| draft.kind == kind);
        let draft = current.insert(same.unwrap_or_else(|| Draft {
            kind,
            redacted: self.0.redactor.stream(),
            text: String::new(),
            is_full: false,
            sent: 0,
            part: 0,
            after: self.0.last_event.load(Ordering::Relaxed),
        }));
        let piece = draft.redacted.push(piece);
        draft.is_full |= draft.text.len() + piece.len() > SendDraft::MAX_BYTES;
        if !draft.is_full {
            draft.text.push_str(&piece);
        }
        drop(current);
        self.0.written.notify_one();
    }

    /// Ends the text without a result, because it is written again.
    pub(crate) fn discard(&self) {
        *self.draft() = None;
    }

    /// Ends the text when its event is published, or its turn ends.
    pub(crate) fn record(&self, event: &RawEvent) {
        if let RawEvent::AssistantMessage { .. } | RawEvent::TurnCompleted { .. } | RawEvent::SessionEnd(_) =
            event
        {
            self.discard();
        }
    }

    /// Sends new text until the run ends.
    pub(crate) async fn publish(self, gateway: Gateway) -> PublishError {
        let mut followers = None;
        let mut interval = INTERVAL;
        loop {
            let is_silent = self.wait_for_text().await;
            tokio::time::sleep(interval).await;
            let part = if followers.is_some() { self.next_part(is_silent) } else { self.question() };
            let Some(part) = part else {
                // The next text may have followers.
                interval = INTERVAL;
                continue;
            };
            let DraftResult { followers: now, is_early } = match gateway.send_draft(&part).await {
                Ok(result) => result,
                Err(error) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "a draft was not sent");
                    DraftResult::default()
                }
            };
            let had_everything = part.part == 0 && !part.text.is_empty();
            if now.is_some() && (is_early || (now != followers && !had_everything)) {
                self.begin_again();
            }
            followers = now;
            interval = if now.is_none() { ASK_INTERVAL } else { INTERVAL };
        }
    }

    /// Waits until the agent has written. Returns true if it is silent in the middle of a text.
    async fn wait_for_text(&self) -> bool {
        let written = self.0.written.notified();
        if self.draft().is_none() {
            written.await;
            return false;
        }
        tokio::time::timeout(ASK_INTERVAL, written).await.is_err()
    }

    /// An empty part, which asks whether anybody follows; `None` if the agent is not writing.
    fn question(&self) -> Option<SendDraft> {
        let draft = self.draft();
        draft.as_ref().map(|draft| SendDraft {
            kind: draft.kind,
            part: draft.part,
            text: String::new(),
            after: draft.after,
        })
    }

    /// The text that was not sent yet. `None` if there is none, unless `may_be_empty`. An empty part has no number of its own.
    fn next_part(&self, may_be_empty: bool) -> Option<SendDraft> {
        let mut current = self.draft();
        let draft = current.as_mut().filter(|draft| may_be_empty || draft.sent < draft.text.len())?;
        let (text, part) = (draft.text[draft.sent..].to_owned(), draft.part);
        draft.sent = draft.text.len();
        if !text.is_empty() {
            draft.part += 1;
        }
        Some(SendDraft { kind: draft.kind, part, text, after: draft.after })
    }

    /// Sends the whole text with the next part.
    fn begin_again(&self) {
        if let Some(draft) = self.draft().as_mut() {
            (draft.sent, draft.part) = (0, 0);
            // A secret may have become known since it was written.
            if let Some(clean) = self.0.redactor.text(&draft.text) {
                draft.text = clean;
            }
            self.0.written.notify_one();
        }
    }

    /// A panic leaves the draft consistent: no change in here can fail halfway.
    fn draft(&self) -> MutexGuard<'_, Option<Draft>> {
        self.0.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(drafts: &Drafts) -> Option<(u32, String)> {
        drafts.next_part(false).map(|SendDraft { part, text, .. }| (part, text))
    }

    #[test]
    fn pieces_are_collected_into_numbered_parts() {
        let drafts = Drafts::new(Redactor::default());
        assert_eq!(parts(&drafts), None);
        drafts.write(DraftKind::Text, "Hello");
        drafts.write(DraftKind::Text, ", wor");
        assert_eq!(parts(&drafts), Some((0, "Hello, wor".into())));
        assert_eq!(parts(&drafts), None, "nothing new was written");
        drafts.write(DraftKind::Text, "ld");
        assert_eq!(parts(&drafts), Some((1, "ld".into())));
        drafts.begin_again();
        assert_eq!(parts(&drafts), Some((0, "Hello, world".into())), "for a new follower");
        let asked = drafts.next_part(true).map(|SendDraft { part, text, .. }| (part, text));
        assert_eq!(asked, Some((1, String::new())), "asks for new followers");
        drafts.write(DraftKind::Thinking, "Hm");
        assert_eq!(parts(&drafts), Some((0, "Hm".into())));
        drafts.discard();
        drafts.write(DraftKind::Thinking, "Oh");
        assert_eq!(parts(&drafts), Some((0, "Oh".into())));
    }

    #[test]
    fn text_follows_the_last_event_before_it() {
        let drafts = Drafts::new(Redactor::default());
        let after = || drafts.next_part(false).map(|part| part.after);
        drafts.follow_event(3);
        drafts.write(DraftKind::Text, "Hello");
        assert_eq!(after(), Some(3));
        // Its own progress, such as usage, does not end it.
        drafts.follow_event(4);
        drafts.begin_again();
        assert_eq!(after(), Some(3));
        drafts.discard();
        drafts.write(DraftKind::Text, "Next");
        assert_eq!(after(), Some(4));
    }

    #[test]
    fn secret_between_pieces_is_not_shown() {
        let redactor = Redactor::default();
        redactor.keep("sk-0123456789abcdef");
        let drafts = Drafts::new(redactor);
        let mut shown = String::new();
        for piece in ["The key is sk-01234", "56789abc", "def, keep it."] {
            drafts.write(DraftKind::Text, piece);
            shown.extend(parts(&drafts).map(|(_, text)| text));
            assert!(!shown.contains("sk-0"), "{shown}");
        }
        assert_eq!(shown, "The key is [secret], keep it.");
    }

    #[test]
    fn endless_text_is_shown_up_to_the_limit() {
        let drafts = Drafts::new(Redactor::default());
        (0..100).for_each(|_| drafts.write(DraftKind::Text, &"x".repeat(1000)));
        drafts.write(DraftKind::Text, "y");
        let shown = parts(&drafts).unwrap().1;
        assert_eq!(shown, "x".repeat(SendDraft::MAX_BYTES / 1000 * 1000), "without a hole");
    }
}
