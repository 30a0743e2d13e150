//! The workstreams that an agent may read and write (S2, "Security boundaries").

use crate::text::WorkstreamId;

/// The workstreams of an agent: it writes in its own, and reads that one and the readable ones of its brief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeScope {
    own: WorkstreamId,
    readable: Vec<WorkstreamId>,
}

impl KnowledgeScope {
    pub const fn new(own: WorkstreamId, readable: Vec<WorkstreamId>) -> Self {
        Self { own, readable }
    }

    pub const fn own(&self) -> &WorkstreamId {
        &self.own
    }

    /// The agent's own workstream, then the others in the order of the brief.
    pub fn readable(&self) -> impl Iterator<Item = &WorkstreamId> {
        std::iter::once(&self.own).chain(&self.readable)
    }

    pub fn may_read(&self, workstream: &WorkstreamId) -> bool {
        self.readable().any(|readable| readable == workstream)
    }

    pub fn may_write(&self, workstream: &WorkstreamId) -> bool {
        self.own == *workstream
    }
}
