//! The inbox as the store keeps it: the decisions that each commit of a session writes (decision 74).

use std::collections::BTreeMap;

use pilothouse_domain::decision::{Decision, DecisionState, DecisionStatus};
use pilothouse_domain::session::AgentSession;
use pilothouse_domain::{DecisionId, ToolCallId};

#[derive(Debug, Clone, Default)]
pub(crate) struct Inbox(BTreeMap<DecisionId, Decision>);

impl Inbox {
    /// Writes the changes of one commit, and checks that they are steps to one final state each and agree with the session.
    pub(crate) fn follow(&mut self, session: &AgentSession) {
        for decision in session.changed_decisions() {
            if let Some(before) = self.0.insert(decision.id, decision.clone()) {
                assert!(may_follow(&before.state, &decision.state), "{before:#?} became {decision:#?}");
                assert_eq!(before.created_at, decision.created_at);
            }
        }
        let reviews = usize::from(session.has_pending_review() && !session.status().is_terminal());
        let held = session.is_held();
        let mut pending = self.in_state(DecisionStatus::Pending);
        assert!(!held || pending.len() == reviews, "a brake suspends requests: {session:#?}");
        pending.extend(self.in_state(DecisionStatus::Suspended));
        assert_eq!(pending.len(), session.pending_requests().len() + reviews, "{session:#?}");
        for decision in pending {
            assert_eq!(session.open_decision(decision.id).as_ref(), Some(decision));
        }
    }

    pub(crate) fn in_state(&self, status: DecisionStatus) -> Vec<&Decision> {
        self.0.values().filter(|decision| decision.status() == status).collect()
    }

    pub(crate) fn with_id(&self, id: DecisionId) -> &Decision {
        &self.0[&id]
    }

    /// The latest decision about a request.
    pub(crate) fn about(&self, request: &ToolCallId) -> &Decision {
        let names = |decision: &&Decision| {
            serde_json::to_value(decision).unwrap()["requestId"].as_str() == Some(request.as_str())
        };
        self.0.values().find(names).unwrap()
    }
}

fn may_follow(before: &DecisionState, after: &DecisionState) -> bool {
    match (before, after) {
        (DecisionState::Pending | DecisionState::Suspended { .. }, _) => true,
        (
            DecisionState::Resolving { ruling },
            DecisionState::Resolved { ruling: same, .. } | DecisionState::AutoResolved { ruling: same, .. },
        ) => ruling == same,
        _ => false,
    }
}
