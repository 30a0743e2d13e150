//! Limits of an agent's conversation (S2 `AgentBrief.sessionPolicy`; decision 92).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::ContextPolicy;

/// Limits of an agent's conversation. Each adapter applies those that it can, and raises a notice for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct SessionPolicy {
    /// Most model calls of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub max_turns: Option<u32>,
    /// Tokens in the context window at which it counts as full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_000, max = 10_000_000))]
    pub context_budget_tokens: Option<u64>,
    /// The treatment of earlier messages.
    pub history_policy: HistoryPolicy,
    /// With `recent_n`: the number of the latest turns that the agent keeps. Default: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub history_n: Option<u32>,
}

/// The treatment of earlier messages of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryPolicy {
    /// They stay. When the context window is full, a new session receives a handoff document.
    Full,
    /// When the context window is full, a summary replaces them.
    Summarized,
    /// The model receives the latest turns only.
    RecentN,
}

/// One violation of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionPolicyViolation {
    #[error("must be from {min} to {max}")]
    Range { min: u64, max: u64 },
    #[error("applies to the history policy `recent_n` only")]
    NotRecent,
}

impl SessionPolicy {
    /// The default of S2.
    pub const DEFAULT_RECENT: u32 = 50;

    /// Names every violation, with its field.
    pub(super) fn check(&self) -> Vec<(&'static str, SessionPolicyViolation)> {
        let ranges = [
            ("maxTurns", self.max_turns.map(u64::from), 1, 10_000),
            ("contextBudgetTokens", self.context_budget_tokens, 1_000, 10_000_000),
            ("historyN", self.history_n.map(u64::from), 1, 1_000),
        ];
        let outside = ranges.into_iter().filter_map(|(field, value, min, max)| {
            (!(min..=max).contains(&value?)).then_some((field, SessionPolicyViolation::Range { min, max }))
        });
        let mut found: Vec<_> = outside.collect();
        if self.history_n.is_some() && self.history_policy != HistoryPolicy::RecentN {
            found.push(("historyN", SessionPolicyViolation::NotRecent));
        }
        found
    }

    /// The number of the latest turns that the agent keeps; `None` for all.
    pub fn recent_turns(&self) -> Option<u32> {
        (self.history_policy == HistoryPolicy::RecentN)
            .then(|| self.history_n.unwrap_or(Self::DEFAULT_RECENT))
    }

    /// The action on a full context window; `None` leaves it to the session.
    pub const fn context_policy(&self) -> Option<ContextPolicy> {
        match self.history_policy {
            HistoryPolicy::Full => Some(ContextPolicy::Handoff),
            HistoryPolicy::Summarized => Some(ContextPolicy::Compact),
            HistoryPolicy::RecentN => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: SessionPolicy = SessionPolicy {
        max_turns: None,
        context_budget_tokens: None,
        history_policy: HistoryPolicy::Full,
        history_n: None,
    };

    #[test]
    fn every_violation_of_a_session_policy_is_named() {
        use SessionPolicyViolation as V;
        assert_eq!(FULL.check(), []);
        let most = SessionPolicy {
            max_turns: Some(10_000),
            context_budget_tokens: Some(10_000_000),
            history_policy: HistoryPolicy::RecentN,
            history_n: Some(1_000),
        };
        assert_eq!(most.check(), []);
        let wrong = SessionPolicy {
            max_turns: Some(0),
            context_budget_tokens: Some(999),
            history_n: Some(1_001),
            history_policy: HistoryPolicy::Summarized,
        };
        assert_eq!(
            wrong.check(),
            [
                ("maxTurns", V::Range { min: 1, max: 10_000 }),
                ("contextBudgetTokens", V::Range { min: 1_000, max: 10_000_000 }),
                ("historyN", V::Range { min: 1, max: 1_000 }),
                ("historyN", V::NotRecent),
            ]
        );
    }

    #[test]
    fn history_policy_decides_on_the_full_window_and_the_turns() {
        let of = |history_policy| SessionPolicy { history_policy, ..FULL };
        let (summarized, recent) = (of(HistoryPolicy::Summarized), of(HistoryPolicy::RecentN));
        assert_eq!((FULL.context_policy(), FULL.recent_turns()), (Some(ContextPolicy::Handoff), None));
        assert_eq!(summarized.context_policy(), Some(ContextPolicy::Compact));
        assert_eq!((recent.context_policy(), recent.recent_turns()), (None, Some(50)));
        let three = SessionPolicy { history_n: Some(3), ..recent };
        assert_eq!(three.recent_turns(), Some(3));
    }
}
