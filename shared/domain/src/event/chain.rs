//! The context window, handoffs and chains.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! chain_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// Context usage crossed the warning threshold.
            ContextNearingLimit = "ContextNearingLimitEvent" {
                /// Usage in percent.
                usage_percent: String,
                /// Size of the context window in tokens, if known.
                model_context_limit: Option<u64>,
            };
            /// The context window is full.
            ContextExhausted = "ContextExhaustedEvent" {
                /// The chain of the session; absent if its chain is created with this event.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                chain_id: Option<SessionChainId>,
            };
            /// The agent hands over before its context window is full.
            VoluntaryHandoff = "SessionVoluntaryHandoffEvent" {
                reason: String,
                /// The chain of the session; absent if its chain is created with this event.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                chain_id: Option<SessionChainId>,
            };
            /// A handoff document was recorded.
            HandoffDocumentRecorded = "SessionHandoffDocumentRecordedEvent" {
                /// The document; absent in entries from before chains existed.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                handoff_document_id: Option<HandoffDocumentId>,
            };
            /// Another session continues the work and has the waiting messages (decision 30).
            WorkHandedOn = "SessionWorkHandedOnEvent" {
                chain_id: SessionChainId,
                /// The session that continues.
                continuation: AgentSessionId,
                /// Messages that moved to the continuation.
                message_ids: Vec<MessageId>,
            };
            /// The session continues the work of another one.
            WorkTakenUp = "SessionWorkTakenUpEvent" {
                chain_id: SessionChainId,
                /// The predecessor.
                from_session_id: AgentSessionId,
                /// Position of this session in the chain, from 1.
                position: u32,
                /// Messages that moved from the predecessor.
                message_ids: Vec<MessageId>,
            };
            /// Spend of a session was reported after its end; continuations have to count it (decision 33).
            LateSpend = "SessionLateSpendEvent" {
                /// Total that the session itself spent.
                total_cost_usd: Usd,
            };
            /// The spend of earlier sessions of the chain was counted again (decision 33).
            ChainSpendCounted = "SessionChainSpendCountedEvent" {
                /// Total of the earlier sessions.
                carried_usd: Usd,
            };
            /// A chain was created (S0 8.6).
            ChainCreated = "SessionChainCreatedEvent" {
                chain_id: SessionChainId,
                /// Objective of the first session.
                original_objective: String,
                first_session_id: AgentSessionId,
            };
            /// A session of a chain recorded its handoff document (S0 8.6).
            HandoffInitiated = "SessionHandoffInitiatedEvent" {
                chain_id: SessionChainId,
                /// The session that hands over.
                from_session_id: AgentSessionId,
                handoff_document_id: HandoffDocumentId,
                /// Whether the document was synthesized from the session's records.
                synthesized: bool,
            };
            /// A session was attached to a chain (S0 8.6).
            AddedToChain = "SessionAddedToChainEvent" {
                chain_id: SessionChainId,
                new_session_id: AgentSessionId,
                /// Position in the chain, from 1.
                position: u32,
            };
            /// A chain was completed (S0 8.6).
            ChainCompleted = "SessionChainCompletedEvent" {
                chain_id: SessionChainId,
                total_sessions: usize,
                /// Total that all sessions spent.
                total_cost_usd: Usd,
            };
            /// A chain was cancelled (S0 8.6).
            ChainCancelled = "SessionChainCancelledEvent" {
                chain_id: SessionChainId,
            };
        } $($rest)* }
    };
}
