//! The context of a branch: what a model sees.

use std::sync::Arc;

use pilothouse_domain::value::ThinkingLevel;

use super::entry::{Entry, EntryKind};
use super::files::FileList;
use crate::message::{AgentMessage, UserContent, UserMessage};

pub const SUMMARY_BEGIN: &str =
    "The conversation before this point was compacted into the following summary:\n\n<summary>\n";
pub const SUMMARY_END: &str = "\n</summary>";

/// The state of a conversation at its leaf (S1 9, `GetContext`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// The messages since the last compaction, preceded by its summary. Includes commands that are hidden from the
    /// model (`!!`), which the caller must remove.
    pub messages: Vec<Arc<AgentMessage>>,
    /// Provider and id. `None` if none was ever selected.
    pub model: Option<(String, String)>,
    /// `None` if none was ever selected.
    pub thinking: Option<ThinkingLevel>,
}

impl Context {
    /// `path` begins at a root.
    pub(super) fn of(path: &[&Entry]) -> Self {
        let mut context = Self::default();
        let mut answered_by = None;
        for entry in path {
            match &entry.kind {
                EntryKind::ModelChange { provider, model_id } => {
                    context.model = Some((provider.clone(), model_id.clone()));
                }
                EntryKind::ThinkingLevelChange { thinking_level } => context.thinking = Some(*thinking_level),
                EntryKind::Message { message } => {
                    if let AgentMessage::Assistant(reply) = &**message {
                        answered_by = Some((reply.provider.clone(), reply.model.clone()));
                    }
                }
                _ => {}
            }
        }
        context.model = context.model.or(answered_by);
        let beginning = Beginning::of(path);
        context.messages.extend(beginning.summary.map(Arc::new));
        let kept = path.iter().skip(beginning.from);
        context.messages.extend(kept.filter_map(|entry| match &entry.kind {
            EntryKind::Message { message } => Some(Arc::clone(message)),
            _ => None,
        }));
        context
    }
}

/// Where the context of a path begins.
pub(crate) struct Beginning {
    /// The summary of earlier messages, if there is one.
    pub(crate) summary: Option<AgentMessage>,
    /// Index in the path of the first entry that is in the context unchanged.
    pub(crate) from: usize,
    /// Index of the compaction. Earlier token counts do not apply to the current context.
    pub(crate) compacted_at: usize,
}

impl Beginning {
    /// `path` begins at a root.
    pub(crate) fn of(path: &[&Entry]) -> Self {
        let last_compaction = path.iter().enumerate().rev().find_map(|(at, entry)| match &entry.kind {
            EntryKind::Compaction { summary, first_kept, files, .. } => {
                Some((at, summary_message(entry, summary, files), *first_kept))
            }
            _ => None,
        });
        let Some((at, summary, first_kept)) = last_compaction else {
            return Self { summary: None, from: 0, compacted_at: 0 };
        };
        let from = first_kept.and_then(|first| path[..at].iter().position(|entry| entry.id == first));
        Self { summary: Some(summary), from: from.unwrap_or(at), compacted_at: at }
    }
}

/// A summary as the model sees it.
fn summary_message(entry: &Entry, summary: &str, files: &FileList) -> AgentMessage {
    let text = format!("{SUMMARY_BEGIN}{summary}{SUMMARY_END}{}", files.section());
    AgentMessage::User(UserMessage { content: vec![UserContent::Text { text }], timestamp: entry.timestamp })
}
