//! Session chains in the API (S0 8.7 `SessionChainDto`).

use pilothouse_domain::chain::{ChainedSession, Handoff, SessionChainStatus};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::HandoffDocument;
use pilothouse_domain::{AgentSession, AgentSessionId, SessionChain, SessionChainId, Timestamp, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session chain with its sessions and handoff documents.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// The fields that a list of chains shows, too.
    #[serde(flatten)]
    pub summary: ChainSummary,
    /// The sessions of the chain in order.
    pub sessions: Vec<ChainedSessionView>,
    /// The handoffs between the sessions, oldest first.
    pub handoff_documents: Vec<HandoffView>,
    /// The version of the chain; also its `ETag`.
    pub version: u64,
}

/// A chain in a list (S0 8.7 `SessionChainSummaryDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainSummary {
    /// The id of the chain.
    pub id: SessionChainId,
    /// The objective of the first session.
    pub original_objective: String,
    /// The status of the chain.
    pub status: SessionChainStatus,
    /// The latest session of the chain.
    pub current_session_id: AgentSessionId,
    /// The number of sessions.
    pub session_count: usize,
    /// The cost of all sessions together, in dollars.
    pub total_cost_usd: Usd,
    /// When the chain was created.
    pub created_at: Timestamp,
    /// When the chain was completed or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// A session of a chain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainedSessionView {
    /// The session and its position in the chain.
    #[serde(flatten)]
    pub chained: ChainedSession,
    /// The name of the session.
    pub name: String,
    /// The status of the session.
    pub status: AgentSessionStatus,
    /// The cost of this session alone, in dollars.
    pub total_cost_usd: Usd,
}

/// A handoff from one session to the next, with its document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffView {
    /// The two sessions and the time of the handoff.
    #[serde(flatten)]
    pub handoff: Handoff,
    /// The completed work. Absent when the session no longer exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The work that remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_work: Option<String>,
    /// The decisions that the next session must respect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_decisions: Option<String>,
}

impl ChainSummary {
    /// The summary of a chain whose sessions spent `total_cost_usd`.
    pub fn of(chain: &SessionChain, total_cost_usd: Usd) -> Self {
        Self {
            id: chain.id(),
            original_objective: chain.original_objective().to_string(),
            status: chain.status(),
            current_session_id: chain.current_session_id(),
            session_count: chain.len(),
            total_cost_usd,
            created_at: chain.created_at(),
            completed_at: chain.completed_at(),
        }
    }
}

impl ChainView {
    /// The view of a chain. Sessions that are missing from `sessions` are left out.
    pub fn of(chain: &SessionChain, sessions: &[AgentSession], version: u64) -> Self {
        let session = |id| sessions.iter().find(|session| session.id() == id);
        let total = sessions.iter().map(|session| session.metrics().usage.total_cost_usd()).sum();
        let chained = chain.sessions().filter_map(|chained| {
            session(chained.session_id).map(|session| ChainedSessionView {
                chained: *chained,
                name: session.name().to_string(),
                status: session.status(),
                total_cost_usd: session.metrics().usage.total_cost_usd(),
            })
        });
        let handoffs = chain.handoffs().iter().map(|handoff| {
            let written = session(handoff.from_session_id).and_then(AgentSession::handoff_document);
            HandoffView::of(*handoff, written.map(|written| &written.document))
        });
        Self {
            summary: ChainSummary::of(chain, total),
            sessions: chained.collect(),
            handoff_documents: handoffs.collect(),
            version,
        }
    }
}

impl HandoffView {
    fn of(handoff: Handoff, document: Option<&HandoffDocument>) -> Self {
        Self {
            handoff,
            summary: document.map(|document| document.summary.to_string()),
            remaining_work: document.map(|document| document.remaining_work.to_string()),
            key_decisions: document
                .and_then(|document| document.key_decisions.as_ref())
                .map(ToString::to_string),
        }
    }
}
