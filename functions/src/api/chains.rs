//! Chains over the API (S0 8.7 `SessionChainDto`).

use pilothouse_domain::chain::{ChainedSession, Handoff, SessionChainStatus};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::HandoffDocument;
use pilothouse_domain::{AgentSession, AgentSessionId, SessionChain, SessionChainId, Timestamp, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A chain in full.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// What a list shows of it, too.
    #[serde(flatten)]
    pub summary: ChainSummary,
    /// Its sessions in order.
    pub sessions: Vec<ChainedSessionView>,
    /// What they left to each other, oldest first.
    pub handoff_documents: Vec<HandoffView>,
    /// Its version; also its `ETag`.
    pub version: u64,
}

/// A chain in a list (S0 8.7 `SessionChainSummaryDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainSummary {
    /// Its id.
    pub id: SessionChainId,
    /// What its first session was to do.
    pub original_objective: String,
    /// Where it stands.
    pub status: SessionChainStatus,
    /// The last of its sessions.
    pub current_session_id: AgentSessionId,
    /// How many it has.
    pub session_count: usize,
    /// What they spent together, in dollars.
    pub total_cost_usd: Usd,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was completed or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// A session of a chain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainedSessionView {
    /// Its place.
    #[serde(flatten)]
    pub chained: ChainedSession,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub status: AgentSessionStatus,
    /// What it spent itself, in dollars.
    pub total_cost_usd: Usd,
}

/// A handoff with its document.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffView {
    /// Between which sessions, and when.
    #[serde(flatten)]
    pub handoff: Handoff,
    /// What was done; none where the session is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_work: Option<String>,
    /// What must not be forgotten.
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
    /// The view of a chain with its sessions, as far as they are there.
    pub fn of(chain: &SessionChain, sessions: &[AgentSession], version: u64) -> Self {
        let session = |id| sessions.iter().find(|session| session.id() == id);
        let total = sessions.iter().map(|session| session.metrics().total_cost_usd).sum();
        let chained = chain.sessions().filter_map(|chained| {
            session(chained.session_id).map(|session| ChainedSessionView {
                chained: *chained,
                name: session.name().to_string(),
                status: session.status(),
                total_cost_usd: session.metrics().total_cost_usd,
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
