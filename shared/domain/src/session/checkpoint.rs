//! Checkpoints of the agents of projects (S2 `SerializedAgentState`; decision 90).
//!
//! A checkpoint refers to the conversation, which the sidecar of the agent stores at each step. It contains no copy of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AgentSession;
use crate::{DecisionId, MeterId, Timestamp};

/// The cause of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointCause {
    /// The agent waits for a decision of a person.
    Decision,
    /// The agent confirmed a pause.
    Pause,
    /// The agent stopped within the grace period of a kill.
    KillGrace,
    /// The process, the machine or the adapter of the agent failed.
    CrashRecovery,
}

crate::names::named!(CheckpointCause {
    Decision => "decision",
    Pause => "pause",
    KillGrace => "kill_grace",
    CrashRecovery => "crash_recovery",
});

/// A point at which the conversation of an agent can continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The conversation, as its adapter names it. `None` before the agent has reported its first usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<MeterId>,
    /// Number of the run within the session.
    pub run: u32,
    /// All events of the run up to this one were applied before the checkpoint; 0 if there were none.
    pub last_sequence: u64,
    /// The agent worked with its brief as it was at this time.
    pub configured_at: Timestamp,
    /// The decisions that the agent waited for, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_decision_ids: Vec<DecisionId>,
    pub serialized_at: Timestamp,
    pub serialized_by: CheckpointCause,
}

/// The latest checkpoints of a session of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checkpoints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversation: Option<MeterId>,
    /// Oldest first; at most [`Self::KEPT`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Checkpoint>,
}

impl Checkpoints {
    /// Number of checkpoints that are kept (S2, "Checkpointing strategy").
    const KEPT: usize = 3;

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn keep(&mut self, checkpoint: Checkpoint) {
        self.kept.push(checkpoint);
        let excess = self.kept.len().saturating_sub(Self::KEPT);
        self.kept.drain(..excess);
    }
}

impl AgentSession {
    /// The latest checkpoints, oldest first. Only sessions of projects have any.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints.kept
    }

    pub(super) fn record_conversation(&mut self, conversation: &MeterId) {
        if self.project().is_some() && self.checkpoints.conversation.as_ref() != Some(conversation) {
            self.checkpoints.conversation = Some(conversation.clone());
        }
    }

    /// Makes a checkpoint of an agent that waits for `pending`. An agent that never began has none, because nothing could continue.
    pub(super) fn make_checkpoint(
        &mut self,
        serialized_by: CheckpointCause,
        pending_decision_ids: Vec<DecisionId>,
        now: Timestamp,
    ) {
        let Some(configured_at) = self.configuration.composed_at().filter(|_| self.project().is_some())
        else {
            return;
        };
        let Some((run, next)) = self.run_state.next_sequence() else { return };
        self.checkpoints.keep(Checkpoint {
            conversation: self.checkpoints.conversation.clone(),
            run,
            last_sequence: next.saturating_sub(1),
            configured_at,
            pending_decision_ids,
            serialized_at: now,
            serialized_by,
        });
    }

    /// The ids of the decisions that the agent waits for, oldest first.
    pub(super) fn open_decision_ids(&self) -> Vec<DecisionId> {
        self.open_decisions().map(|decision| decision.id).collect()
    }
}
