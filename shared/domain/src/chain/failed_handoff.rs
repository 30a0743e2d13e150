//! The decision about a chain whose work cannot be handed over (decision 81).

use super::ChainError;
use crate::decision::{ChainOutcome, DecisionSubject, FreeDecision};
use crate::{AgentSession, DecisionId, SessionChainId, Timestamp};

impl FreeDecision {
    /// The id of the decision about a chain that is full.
    pub fn failed_handoff_of(chain: SessionChainId) -> DecisionId {
        DecisionId::about(chain.uuid(), "handoff")
    }

    /// The decision about a chain whose work `session` cannot hand over.
    pub fn handoff_failed(
        session: &AgentSession,
        chain_id: SessionChainId,
        obstacle: &ChainError,
        now: Timestamp,
    ) -> Self {
        let subject = DecisionSubject::HandoffFailed {
            chain_id,
            obstacle: obstacle.to_string(),
            options: ChainOutcome::options(),
        };
        Self::about(session, Self::failed_handoff_of(chain_id), subject, now)
    }
}
