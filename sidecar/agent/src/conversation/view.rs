//! The conversation at the leaf of its tree, updated incrementally, so that a turn costs the same in a long
//! conversation.

use std::sync::Arc;

use serde::Deserialize;

use super::estimate;
use super::pairing::Paired;
use crate::message::{AgentMessage, SharedMessages};
use crate::model::OmittedContent;
use crate::tree::{Beginning, Entry, EntryId, EntryKind, SessionTree, TreeError};

/// Kind of the entries from which on the model no longer gets a kind of content.
const OMITTED: &str = "omitted_content";

/// Leaves out this content of all messages so far, also after a restart.
pub(crate) fn append_omission(tree: &mut SessionTree, content: OmittedContent) -> Result<(), TreeError> {
    tree.append_custom(OMITTED, serde_json::to_value(content).unwrap_or_default())?;
    Ok(())
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ConversationView {
    /// The last entry that is included.
    leaf: Option<EntryId>,
    paired: Paired,
    messages: usize,
    /// The provider's token count up to and including the last reply.
    counted: Option<u64>,
    /// Estimate for later messages.
    after: u64,
    /// Estimate for all messages.
    estimated: u64,
}

impl ConversationView {
    /// Adds new entries of the tree. Rebuilds the view after a compaction or a change of branch.
    pub(crate) fn follow(&mut self, tree: &SessionTree) {
        let leaf = tree.leaf();
        if self.leaf == leaf {
            return;
        }
        let mut new: Vec<&Entry> = Vec::new();
        for entry in tree.up() {
            if Some(entry.id) == self.leaf {
                new.iter().rev().for_each(|entry| self.take(entry, true));
                self.leaf = leaf;
                return;
            }
            if let EntryKind::Compaction { .. } = entry.kind {
                break;
            }
            new.push(entry);
        }
        *self = Self::of(tree);
    }

    /// Builds the view from scratch.
    fn of(tree: &SessionTree) -> Self {
        let path = tree.path();
        let beginning = Beginning::of(&path);
        let mut view = Self { leaf: tree.leaf(), ..Self::default() };
        if let Some(summary) = beginning.summary {
            view.add(&Arc::new(summary));
        }
        for (at, entry) in path.iter().enumerate().skip(beginning.from) {
            // Counts before a compaction included messages that it removed.
            view.take(entry, at >= beginning.compacted_at);
        }
        view
    }

    fn take(&mut self, entry: &Entry, counts: bool) {
        let message = match &entry.kind {
            EntryKind::Message { message } => message,
            EntryKind::Custom { kind, data } if kind == OMITTED => {
                if let Ok(content) = OmittedContent::deserialize(data) {
                    self.paired.omit(content);
                }
                return;
            }
            _ => return,
        };
        self.add(message);
        if let AgentMessage::Assistant(reply) = &**message
            && counts
            && reply.usage.total() > 0
        {
            (self.counted, self.after) = (Some(reply.usage.total()), 0);
        }
    }

    fn add(&mut self, message: &Arc<AgentMessage>) {
        self.messages += 1;
        let tokens = estimate(message);
        self.after += tokens;
        self.estimated += tokens;
        self.paired.push(message);
    }

    /// The messages as a model sees them.
    pub(crate) fn for_model(&self) -> SharedMessages {
        self.paired.messages()
    }

    /// Whether a message that the model sees has this content.
    pub(crate) fn has(&self, content: OmittedContent) -> bool {
        self.paired.clone().omit(content)
    }

    pub(crate) const fn messages(&self) -> usize {
        self.messages
    }

    pub(crate) const fn tokens(&self) -> ContextTokens {
        match self.counted {
            Some(tokens) => ContextTokens::Counted(tokens + self.after),
            None => ContextTokens::Estimated(self.estimated),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextTokens {
    /// Counted by a provider up to the last reply, including the system prompt and tools.
    Counted(u64),
    /// Estimated, without the system prompt and tools.
    Estimated(u64),
}

impl ContextTokens {
    pub(crate) const fn value(self) -> u64 {
        match self {
            Self::Counted(tokens) | Self::Estimated(tokens) => tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::message::{AssistantContent, AssistantMessage, StopReason, ToolCall, Usage, UserContent};
    use crate::message::{tool_result, user_message};
    use crate::tree::FileList;

    /// Applies a pseudo-random operation. The same numbers have the same effect.
    fn grow(tree: &mut SessionTree, step: u64) {
        let ids: Vec<EntryId> = tree.path().iter().map(|entry| entry.id).collect();
        let some = ids.get((step / 16) as usize % ids.len().max(1)).copied();
        match step % 16 {
            0..5 => drop(tree.append_message(user_message(&format!("say {step}"), Vec::new())).unwrap()),
            5..9 => {
                let call =
                    ToolCall { id: format!("call_{}", step % 3), name: "t".into(), arguments: json!({}) };
                let mut content = vec![AssistantContent::Text { text: format!("answer {step}") }];
                content.extend(step.is_multiple_of(2).then(|| AssistantContent::ToolCall(call.clone())));
                let stop_reason = match step % 7 {
                    0 => StopReason::Aborted,
                    1 => StopReason::Error,
                    _ => StopReason::ToolUse,
                };
                let usage = Usage { input: step % 5 * 100, ..Usage::default() };
                let reply = AssistantMessage {
                    content,
                    provider: "p".into(),
                    model: "m".into(),
                    usage,
                    stop_reason,
                    error: None,
                    timestamp: Timestamp::from_millis(0),
                };
                tree.append_message(AgentMessage::Assistant(reply)).unwrap();
                if !step.is_multiple_of(3) {
                    tree.append_message(AgentMessage::ToolResult(tool_result(&call, "it did", false)))
                        .unwrap();
                }
            }
            9..12 => drop(tree.append_custom("note", json!(step)).unwrap()),
            12 => drop(tree.append_compaction("what was", some, 7, FileList::default()).unwrap()),
            13 => drop(tree.append_compaction("all of it", None, 7, FileList::default()).unwrap()),
            14 => match some {
                Some(entry) => tree.branch(entry).unwrap(),
                None => tree.reset_leaf().unwrap(),
            },
            _ => tree.reset_leaf().unwrap(),
        }
    }

    #[test]
    fn incremental_view_equals_a_rebuilt_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = SessionTree::create(dir.path(), "/work", None).unwrap();
        let (mut view, mut seed) = (ConversationView::default(), 41_u64);
        for _ in 0..600 {
            for _ in 0..=seed % 3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                grow(&mut tree, seed >> 33);
            }
            view.follow(&tree);
            let anew = ConversationView::of(&tree);
            assert_eq!(view.for_model(), super::super::for_model(tree.context().messages));
            assert_eq!(view.for_model(), anew.for_model());
            assert_eq!((view.messages(), view.tokens()), (anew.messages(), anew.tokens()));
            assert_eq!(view.messages(), tree.context().messages.len());
        }
    }

    #[test]
    fn messages_are_shared_with_the_tree_and_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = SessionTree::create(dir.path(), "/work", None).unwrap();
        let mut view = ConversationView::default();
        let text = UserContent::Text { text: "a long text".repeat(100) };
        tree.append_message(user_message("first", vec![text])).unwrap();
        view.follow(&tree);
        let before = view.for_model();
        tree.append_message(user_message("second", Vec::new())).unwrap();
        view.follow(&tree);
        let EntryKind::Message { message } = &tree.entries()[0].kind else { panic!("no message") };
        assert!(Arc::ptr_eq(&before[0], message) && Arc::ptr_eq(&view.for_model()[0], message));
        assert_eq!((before.len(), view.for_model().len()), (1, 2), "a request does not grow");
    }
}
