//! Checkpoints of the agents of projects, and outcomes of kills (S2, "Session management and checkpointing"; decision 90).

use pilothouse_domain::session::{AgentSession, Checkpoint, CheckpointCause};
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::{AgentSessionId, DecisionId, MeterId, ProjectAgent, ProjectAgentId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A point at which the conversation of an agent can continue (S2 `SerializedAgentState`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointView {
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The adapter that drives the agent.
    pub plugin_name: String,
    /// The session.
    pub session_id: AgentSessionId,
    /// The conversation, which the sidecar stores. Absent before the agent has reported its first usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<ConversationReference>,
    /// The version of the brief that the agent worked with. Absent if the brief has changed more than 20 times since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief_version: Option<u32>,
    /// The decisions that the agent waited for, oldest first.
    pub pending_decision_ids: Vec<DecisionId>,
    /// The number of the run within the session, from 1.
    pub run: u32,
    /// All events of the run up to this sequence were applied before the checkpoint.
    pub last_sequence: u64,
    /// When the checkpoint was made.
    pub serialized_at: Timestamp,
    /// The cause of the checkpoint.
    pub serialized_by: CheckpointCause,
    /// The size of the checkpoint as it is stored.
    pub estimated_size_bytes: usize,
}

/// The conversation of an agent (S2 `SdkCheckpoint`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationReference {
    /// The adapter that can continue the conversation.
    pub sdk: AdapterName,
    /// The conversation, as the adapter names it.
    pub session_id: MeterId,
}

/// The checkpoints of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointList {
    /// The checkpoints of the current session, newest first: 3 at most.
    pub items: Vec<CheckpointView>,
}

/// The outcome of a kill (S2 `KillResponse`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KillView {
    /// The state of the agent when it stopped. Absent if it did not stop within the grace period, or had no process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<CheckpointView>,
    /// Whether the agent stopped before the runtime had to end its process.
    pub clean_shutdown: bool,
}

impl CheckpointView {
    /// The view of a checkpoint of `session`.
    pub fn of(agent: &ProjectAgent, session: &AgentSession, checkpoint: &Checkpoint) -> Self {
        let sdk = &session.settings().adapter;
        let reference = |id: &MeterId| ConversationReference { sdk: sdk.clone(), session_id: id.clone() };
        Self {
            agent_id: agent.id(),
            plugin_name: sdk.to_string(),
            session_id: session.id(),
            checkpoint: checkpoint.conversation.as_ref().map(reference),
            brief_version: agent.brief_version_at(checkpoint.configured_at),
            pending_decision_ids: checkpoint.pending_decision_ids.clone(),
            run: checkpoint.run,
            last_sequence: checkpoint.last_sequence,
            serialized_at: checkpoint.serialized_at,
            serialized_by: checkpoint.serialized_by,
            estimated_size_bytes: serde_json::to_vec(checkpoint).map_or(0, |bytes| bytes.len()),
        }
    }
}

impl CheckpointList {
    /// The checkpoints of the agent's current session.
    pub fn of(agent: &ProjectAgent, session: &AgentSession) -> Self {
        let newest_first = session.checkpoints().iter().rev();
        Self { items: newest_first.map(|it| CheckpointView::of(agent, session, it)).collect() }
    }
}

impl KillView {
    /// The outcome of the kill of `session`; `None` unless it was cancelled.
    pub fn of(agent: &ProjectAgent, session: &AgentSession) -> Option<Self> {
        let outcome = session.kill_outcome()?;
        let state = outcome.state.map(|state| CheckpointView::of(agent, session, state));
        Some(Self { state, clean_shutdown: outcome.is_clean })
    }
}
