//! The turns of a session's conversations as a tree (S1 5, 9): which turn follows which, where branches end, and labels. An agent that
//! can rewind, leave and label its conversations keeps the tree beside them.

use std::collections::{HashMap, HashSet};

use pilothouse_domain::TurnId;
use pilothouse_domain::value::{AgentConversations, ConversationBranch, TurnLabel};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnTree {
    /// Key of the current conversation.
    #[serde(default, rename = "conversation")]
    current: Option<String>,
    /// In the order of their beginnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conversations: Vec<ConversationNode>,
    /// In the order of their beginnings.
    #[serde(default)]
    turns: Vec<TurnNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ConversationNode {
    /// Identifies the conversation for its adapter.
    key: String,
    /// Key of the conversation that was current when this one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The turn that the next one follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head: Option<TurnId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TurnNode {
    id: TurnId,
    /// Key of its conversation.
    conversation: String,
    /// The last entry before the turn; `None` at the beginning of the conversation.
    after: Option<String>,
    /// The turn that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<TurnId>,
    /// The last entry of its branch, when the agent left it after this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

/// Where a turn ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd<'a> {
    /// At the entry where its conversation was left, or is now.
    Head,
    /// At this entry.
    Entry(&'a str),
    /// The entry is not known.
    Unknown,
}

impl TurnTree {
    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// The number of conversations so far.
    pub(crate) fn conversation_count(&self) -> usize {
        self.conversations.len()
    }

    pub(crate) fn has_conversation(&self, key: &str) -> bool {
        self.conversations.iter().any(|conversation| conversation.key == key)
    }

    /// Makes a conversation the current one, and adds it if it is new.
    pub(crate) fn open(&mut self, key: &str, parent: Option<&str>) {
        if !self.has_conversation(key) {
            let head = self.adopt_turns(key);
            let (key, parent) = (key.to_owned(), parent.map(str::to_owned));
            self.conversations.push(ConversationNode { key, parent, head });
        }
        self.current = Some(key.to_owned());
    }

    /// Chains the turns of a conversation that an earlier version recorded, without branches. Returns the last one.
    fn adopt_turns(&mut self, key: &str) -> Option<TurnId> {
        let mut last = None;
        for turn in self.turns.iter_mut().filter(|turn| turn.conversation == key) {
            turn.parent = last.replace(turn.id.clone());
        }
        last
    }

    /// Begins a turn after an entry of the current conversation.
    pub(crate) fn begin(&mut self, id: TurnId, after: Option<String>) {
        let conversation = self.current.clone().unwrap_or_default();
        let parent = self.set_head(Some(id.clone()));
        self.turns.push(TurnNode { id, conversation, after, parent, end: None, label: None });
    }

    /// The turn that the next one follows.
    pub(crate) fn head(&self) -> Option<&TurnId> {
        self.head_of(self.current.as_deref()?)
    }

    fn head_of(&self, key: &str) -> Option<&TurnId> {
        self.conversations.iter().find(|conversation| conversation.key == key)?.head.as_ref()
    }

    /// Returns the earlier head of the current conversation.
    fn set_head(&mut self, head: Option<TurnId>) -> Option<TurnId> {
        let current = self.current.as_deref()?;
        let conversation = self.conversations.iter_mut().find(|it| it.key == current)?;
        std::mem::replace(&mut conversation.head, head)
    }

    fn turn(&self, id: &TurnId) -> Option<&TurnNode> {
        self.turns.iter().find(|turn| turn.id == *id)
    }

    /// The entry that precedes a turn of the current conversation; `Some(None)` for its first turn.
    #[allow(clippy::option_option)] // outer: no such turn; inner: no preceding entry
    pub(crate) fn before(&self, turn: &TurnId) -> Option<Option<&str>> {
        let found = self.turn(turn)?;
        (Some(&found.conversation) == self.current.as_ref()).then_some(found.after.as_deref())
    }

    /// Records the last entry of the current branch, before the agent leaves it.
    pub(crate) fn leave(&mut self, last: Option<String>) {
        let Some(head) = self.head().cloned() else { return };
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.id == head) {
            turn.end = last;
        }
    }

    /// Continues before a turn of the current conversation.
    pub(crate) fn rewind(&mut self, before: &TurnId) {
        let parent = self.turn(before).and_then(|turn| turn.parent.clone());
        self.set_head(parent);
    }

    /// The conversation of a turn, and where the turn ended.
    pub(crate) fn end_of(&self, turn: &TurnId) -> Option<(&str, TurnEnd<'_>)> {
        let found = self.turn(turn)?;
        let key = found.conversation.as_str();
        if self.head_of(key) == Some(turn) {
            return Some((key, TurnEnd::Head));
        }
        let next = || self.turns.iter().find(|other| other.parent.as_ref() == Some(turn));
        let entry = found.end.as_deref().or_else(|| next()?.after.as_deref());
        Some((key, entry.map_or(TurnEnd::Unknown, TurnEnd::Entry)))
    }

    /// Continues after a turn of any conversation.
    pub(crate) fn continue_after(&mut self, turn: &TurnId) {
        let Some(key) = self.turn(turn).map(|turn| turn.conversation.clone()) else { return };
        self.current = Some(key);
        self.set_head(Some(turn.clone()));
    }

    /// `None` removes the label.
    pub(crate) fn label(&mut self, turn: &TurnId, label: Option<String>) {
        if let Some(turn) = self.turns.iter_mut().find(|it| it.id == *turn) {
            turn.label = label;
        }
    }

    /// Whether there is more than one branch, or a label.
    pub(crate) fn has_choice(&self) -> bool {
        self.turns.iter().any(|turn| turn.label.is_some()) || self.branches(&str::to_owned).len() > 1
    }

    /// Branches and labels for the control plane. `id`: the id of a conversation with this key.
    pub(crate) fn report(&self, id: impl Fn(&str) -> String) -> AgentConversations {
        let labels = self.turns.iter().filter_map(|turn| {
            let label = turn.label.clone()?;
            Some(TurnLabel { turn_id: turn.id.clone(), label })
        });
        AgentConversations { branches: self.branches(&id), labels: labels.collect() }
    }

    /// In the order of their last turns. Branches without a turn are last.
    fn branches(&self, id: &impl Fn(&str) -> String) -> Vec<ConversationBranch> {
        let followed: HashSet<&TurnId> = self.turns.iter().filter_map(|turn| turn.parent.as_ref()).collect();
        let conversations: HashMap<&str, &ConversationNode> =
            self.conversations.iter().map(|it| (it.key.as_str(), it)).collect();
        let branch = |conversation: &ConversationNode, last_turn_id: Option<TurnId>, turns: u32| {
            let is_current =
                self.current.as_ref() == Some(&conversation.key) && conversation.head == last_turn_id;
            ConversationBranch {
                conversation_id: id(&conversation.key),
                parent_id: conversation.parent.as_deref().map(id),
                last_turn_id,
                turns,
                is_current,
            }
        };
        let mut depths: HashMap<&TurnId, u32> = HashMap::new();
        let mut branches = Vec::new();
        for turn in &self.turns {
            // A turn is later than the one that it follows.
            let before = turn.parent.as_ref().and_then(|parent| depths.get(parent)).copied().unwrap_or(0);
            let depth = before.saturating_add(1);
            depths.insert(&turn.id, depth);
            let Some(conversation) = conversations.get(turn.conversation.as_str()) else { continue };
            if !followed.contains(&turn.id) || conversation.head.as_ref() == Some(&turn.id) {
                branches.push(branch(conversation, Some(turn.id.clone()), depth));
            }
        }
        let unused = self.conversations.iter().filter(|conversation| conversation.head.is_none());
        branches.extend(unused.map(|conversation| branch(conversation, None, 0)));
        branches
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(id: &str) -> TurnId {
        TurnId::parse(id).unwrap()
    }

    /// Each branch: conversation, last turn, number of turns, and whether it is the current one.
    fn branches(tree: &TurnTree) -> Vec<(String, String, u32, bool)> {
        let last = |branch: &ConversationBranch| {
            branch.last_turn_id.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default()
        };
        let report = tree.report(str::to_uppercase);
        report
            .branches
            .iter()
            .map(|it| (it.conversation_id.clone(), last(it), it.turns, it.is_current))
            .collect()
    }

    fn branch(conversation: &str, last: &str, turns: u32, is_current: bool) -> (String, String, u32, bool) {
        (conversation.to_owned(), last.to_owned(), turns, is_current)
    }

    /// A conversation with two turns.
    fn tree() -> TurnTree {
        let mut tree = TurnTree::default();
        tree.open("a", None);
        tree.begin(turn("t1"), Some("e0".into()));
        tree.begin(turn("t2"), Some("e1".into()));
        tree
    }

    #[test]
    fn single_branch_offers_no_choice_until_it_has_a_label() {
        let mut tree = tree();
        assert_eq!(branches(&tree), [branch("A", "t2", 2, true)]);
        assert!(!tree.has_choice());
        tree.label(&turn("t1"), Some("good".into()));
        assert!(tree.has_choice());
        assert_eq!(
            tree.report(str::to_owned).labels,
            [TurnLabel { turn_id: turn("t1"), label: "good".into() }]
        );
        tree.label(&turn("t1"), None);
        assert!(!tree.has_choice());
    }

    #[test]
    fn rewound_conversation_keeps_the_branch_that_it_left() {
        let mut tree = tree();
        assert_eq!(tree.before(&turn("t2")), Some(Some("e1")));
        tree.leave(Some("e2".into()));
        tree.rewind(&turn("t2"));
        assert_eq!(branches(&tree), [branch("A", "t1", 1, true), branch("A", "t2", 2, false)]);
        tree.begin(turn("t3"), Some("e1".into()));
        assert_eq!(branches(&tree), [branch("A", "t2", 2, false), branch("A", "t3", 2, true)]);
        assert_eq!(tree.end_of(&turn("t2")), Some(("a", TurnEnd::Entry("e2"))));
        assert_eq!(tree.end_of(&turn("t1")), Some(("a", TurnEnd::Entry("e1"))), "where its successors began");
        assert_eq!(tree.end_of(&turn("t3")), Some(("a", TurnEnd::Head)));
        assert_eq!(tree.end_of(&turn("t4")), None);

        tree.leave(Some("e3".into()));
        tree.continue_after(&turn("t2"));
        assert_eq!(tree.head(), Some(&turn("t2")));
        assert_eq!(branches(&tree), [branch("A", "t2", 2, true), branch("A", "t3", 2, false)]);
    }

    #[test]
    fn rewinding_to_the_beginning_leaves_an_empty_branch() {
        let mut tree = tree();
        tree.rewind(&turn("t1"));
        assert_eq!(branches(&tree), [branch("A", "t2", 2, false), branch("A", "", 0, true)]);
    }

    #[test]
    fn conversations_keep_their_heads_while_another_is_current() {
        let mut tree = tree();
        tree.leave(Some("e2".into()));
        tree.open("b", Some("a"));
        assert_eq!(branches(&tree), [branch("A", "t2", 2, false), branch("B", "", 0, true)]);
        assert_eq!(tree.report(str::to_owned).branches[1].parent_id.as_deref(), Some("a"));
        assert_eq!(tree.before(&turn("t2")), None, "a turn of another conversation");
        tree.begin(turn("t3"), None);
        assert_eq!(tree.end_of(&turn("t2")), Some(("a", TurnEnd::Head)));
        tree.open("a", None);
        assert_eq!(branches(&tree), [branch("A", "t2", 2, true), branch("B", "t3", 1, false)]);
        assert_eq!(tree.conversation_count(), 2);
    }

    #[test]
    fn turns_of_earlier_versions_follow_each_other() {
        let turns = json!([
            { "id": "t1", "conversation": "/x/a.jsonl", "after": null },
            { "id": "t2", "conversation": "/x/a.jsonl", "after": "e1" },
        ]);
        let stored = json!({ "conversation": "/x/a.jsonl", "turns": turns, "warned": true });
        let mut tree: TurnTree = serde_json::from_value(stored).unwrap();
        tree.open("/x/a.jsonl", None);
        tree.begin(turn("t3"), Some("e2".into()));
        assert_eq!(branches(&tree), [branch("/X/A.JSONL", "t3", 3, true)]);
        assert_eq!(tree.before(&turn("t1")), Some(None));
        let again: TurnTree = serde_json::from_value(serde_json::to_value(&tree).unwrap()).unwrap();
        assert_eq!(again, tree);
    }
}
