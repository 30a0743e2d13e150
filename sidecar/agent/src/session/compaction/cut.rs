//! Selects where to cut a conversation: recent messages stay, and no call is separated from its result.

use crate::conversation::estimate;
use crate::message::AgentMessage;
use crate::tree::{Entry, EntryId, EntryKind};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Index in the path of the first entry that stays, or the path's length if none does.
    pub(super) at: usize,
    pub(super) first_kept: Option<EntryId>,
}

/// Finds the longest suffix of the path that has at most `keep` tokens and begins with a message of the user or the
/// model. If that is the whole conversation, no entry stays.
pub(super) fn cut(path: &[&Entry], keep: u64) -> Cut {
    let begin = begin(path);
    let mut tokens = 0;
    let mut best = None;
    let mut first = None;
    for (at, entry) in path.iter().enumerate().skip(begin).rev() {
        let EntryKind::Message { message } = &entry.kind else { continue };
        tokens += estimate(message);
        if !matches!(**message, AgentMessage::ToolResult(_)) {
            first = Some(at);
            if tokens <= keep {
                best = Some((at, entry.id));
            }
        }
    }
    match best {
        Some((at, id)) if first.is_some_and(|first| first < at) || has_summary(path) => {
            Cut { at, first_kept: Some(id) }
        }
        _ => Cut { at: path.len(), first_kept: None },
    }
}

/// Index of the first entry that the last compaction kept.
pub(super) fn begin(path: &[&Entry]) -> usize {
    let last = path.iter().enumerate().rev().find_map(|(at, entry)| match &entry.kind {
        EntryKind::Compaction { first_kept, .. } => Some((at, *first_kept)),
        _ => None,
    });
    let Some((at, first_kept)) = last else { return 0 };
    first_kept.and_then(|id| path.iter().position(|entry| entry.id == id)).unwrap_or(at)
}

fn has_summary(path: &[&Entry]) -> bool {
    path.iter().any(|entry| matches!(entry.kind, EntryKind::Compaction { .. }))
}
