//! The place of a session in its chain (decisions 33 to 35).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Objective;
use crate::value::RecordedHandoff;
use crate::{AgentSessionId, SessionChainId};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChainLink {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain_id: Option<SessionChainId>,
    /// Handoff document for the continuation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handoff_document: Option<RecordedHandoff>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continues: Option<Continues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continuation: Option<AgentSessionId>,
    /// Why no session continues the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<WorkStop>,
}

/// Why no session continues the work of an exhausted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkStop {
    /// The chain has reached its maximum length, and waits for the decision of a person.
    ChainFull,
    /// A person kept the full chain as it is.
    ChainKept,
    /// The chain ended.
    ChainEnded,
    /// The owner ended the agent before another session continued its work.
    Killed,
}

/// State that a session inherited from its predecessor in the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continues {
    pub session_id: AgentSessionId,
    /// Position of this session in the chain, from 1.
    pub position: u32,
    /// Document for the agent; `None` if the owner attached the session to the chain.
    pub document: Option<RecordedHandoff>,
}

/// The place of a continuation in its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPlace {
    pub chain_id: SessionChainId,
    /// Position in the chain, from 1.
    pub position: u32,
    /// Objective of the chain.
    pub objective: Objective,
}

impl ChainLink {
    pub(super) const fn chain_id(&self) -> Option<SessionChainId> {
        self.chain_id
    }

    pub(super) const fn handoff_document(&self) -> Option<&RecordedHandoff> {
        self.handoff_document.as_ref()
    }

    pub(super) const fn continues(&self) -> Option<&Continues> {
        self.continues.as_ref()
    }

    pub(super) const fn continuation(&self) -> Option<AgentSessionId> {
        self.continuation
    }

    pub(super) const fn stop(&self) -> Option<WorkStop> {
        self.stop
    }

    /// Records that no session continues the work. Returns whether that is new.
    pub(super) fn stop_for(&mut self, why: WorkStop) -> bool {
        self.stop.replace(why) != Some(why)
    }

    /// Joins a chain behind a predecessor.
    pub(super) fn join(&mut self, chain_id: SessionChainId, continues: Continues) {
        self.chain_id = Some(chain_id);
        self.continues = Some(continues);
    }

    /// Gives the session the id of the chain that begins with it, if it is in none. Returns the chain that it was in before.
    pub(super) fn begin_chain(&mut self, new_id: impl FnOnce() -> SessionChainId) -> Option<SessionChainId> {
        let before = self.chain_id;
        self.chain_id.get_or_insert_with(new_id);
        before
    }

    /// Records that another session continues the work.
    pub(super) const fn hand_off(&mut self, chain_id: SessionChainId, continuation: AgentSessionId) {
        self.continuation = Some(continuation);
        self.chain_id = Some(chain_id);
    }

    /// Records that another session starts again with the same work.
    pub(super) const fn restart(&mut self, continuation: AgentSessionId) {
        self.continuation = Some(continuation);
    }

    /// Whether the agent wrote its document.
    pub(super) fn has_own_document(&self) -> bool {
        self.handoff_document.as_ref().is_some_and(|known| !known.document.synthesized)
    }

    pub(super) fn record_document(&mut self, document: RecordedHandoff) {
        self.handoff_document = Some(document);
    }

    /// Replaces the document that `from` left. Returns whether the session continues `from`.
    pub(super) fn replace_inherited(&mut self, from: AgentSessionId, document: &RecordedHandoff) -> bool {
        match &mut self.continues {
            Some(continues) if continues.session_id == from => {
                continues.document = Some(document.clone());
                true
            }
            _ => false,
        }
    }
}
