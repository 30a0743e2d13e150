//! The conversations of an agent within its session (S1 5, `NewSession` and `SwitchSession`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TurnId;
use crate::text::cut;

/// The branches of all conversations of an agent, and the labels of turns. An agent reports them as soon as there is more than one
/// branch, or a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentConversations {
    /// The branches, in the order of their last turns. A branch ends after a turn that no other turn follows.
    pub branches: Vec<ConversationBranch>,
    /// The labels, in the order of their turns.
    pub labels: Vec<TurnLabel>,
}

/// A branch of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationBranch {
    /// The agent's id of the conversation.
    pub conversation_id: String,
    /// The conversation that was current when this one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The last turn of the branch. Absent if the branch has no turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn_id: Option<TurnId>,
    /// The number of turns of the branch.
    pub turns: u32,
    /// Whether the agent continues this branch with its next turn.
    pub is_current: bool,
}

/// A label of the conversation's state after a turn (S1 9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnLabel {
    /// The turn.
    pub turn_id: TurnId,
    /// The text of the label.
    pub label: String,
}

impl AgentConversations {
    /// Most branches that are kept, and most labels; they are part of the session's item.
    pub const MAX_ENTRIES: usize = 50;
    /// Most characters of an id or a label.
    pub const MAX_TEXT: usize = 100;

    /// Cuts the lists to their limits (decision 6). The latest entries and the current branch stay.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        // A shortened id would not identify the conversation.
        self.branches.retain(|branch| branch.conversation_id.chars().count() <= Self::MAX_TEXT);
        while self.branches.len() > Self::MAX_ENTRIES
            && let Some(oldest) = self.branches.iter().position(|branch| !branch.is_current)
        {
            self.branches.remove(oldest);
        }
        self.branches.truncate(Self::MAX_ENTRIES);
        for branch in &mut self.branches {
            branch.parent_id = branch.parent_id.take().filter(|id| id.chars().count() <= Self::MAX_TEXT);
        }
        let surplus = self.labels.len().saturating_sub(Self::MAX_ENTRIES);
        self.labels.drain(..surplus);
        for label in &mut self.labels {
            label.label = cut(&label.label, Self::MAX_TEXT);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(n: usize, is_current: bool) -> ConversationBranch {
        ConversationBranch {
            conversation_id: n.to_string(),
            parent_id: None,
            last_turn_id: None,
            turns: 0,
            is_current,
        }
    }

    #[test]
    fn latest_branches_and_the_current_one_are_kept() {
        let many = AgentConversations::MAX_ENTRIES + 10;
        let branches = (0..many).map(|n| branch(n, n == 3)).collect();
        let fitted = AgentConversations { branches, labels: Vec::new() }.fitted();
        assert_eq!(fitted.branches.len(), AgentConversations::MAX_ENTRIES);
        assert_eq!(fitted.branches[0].conversation_id, "3", "the current branch");
        assert_eq!(fitted.branches[1].conversation_id, "11");
    }

    #[test]
    fn long_ids_are_dropped_and_long_labels_are_cut() {
        let long = "x".repeat(AgentConversations::MAX_TEXT + 1);
        let named = ConversationBranch { conversation_id: long.clone(), ..branch(1, false) };
        let child = ConversationBranch { parent_id: Some(long.clone()), ..branch(2, true) };
        let label = TurnLabel { turn_id: TurnId::parse("t").unwrap(), label: long };
        let fitted = AgentConversations { branches: vec![named, child], labels: vec![label] }.fitted();
        assert_eq!(fitted.branches, [branch(2, true)]);
        assert_eq!(fitted.labels[0].label.chars().count(), AgentConversations::MAX_TEXT);
    }
}
