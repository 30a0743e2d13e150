//! Events of a chain (S0 8.6).

use crate::event::aggregate_events;
use crate::{AgentSessionId, HandoffDocumentId, SessionChainId, Usd};

aggregate_events! {
    /// Something that happened to a chain.
    pub enum ChainEvent {
        /// A chain was created (S0 8.6).
        Created = "SessionChainCreatedEvent" {
            chain_id: SessionChainId,
            /// Objective of the first session.
            original_objective: String,
            first_session_id: AgentSessionId,
        },
        /// A session of a chain recorded its handoff document (S0 8.6).
        HandoffInitiated = "SessionHandoffInitiatedEvent" {
            chain_id: SessionChainId,
            /// The session that hands over.
            from_session_id: AgentSessionId,
            handoff_document_id: HandoffDocumentId,
            /// Whether the document was synthesized from the session's records.
            synthesized: bool,
        },
        /// A session was attached to a chain (S0 8.6).
        SessionAdded = "SessionAddedToChainEvent" {
            chain_id: SessionChainId,
            new_session_id: AgentSessionId,
            /// Position in the chain, from 1.
            position: u32,
        },
        /// A chain was completed (S0 8.6).
        Completed = "SessionChainCompletedEvent" {
            chain_id: SessionChainId,
            total_sessions: usize,
            /// Total that all sessions spent.
            total_cost_usd: Usd,
        },
        /// A chain was cancelled (S0 8.6).
        Cancelled = "SessionChainCancelledEvent" { chain_id: SessionChainId },
    }
}
