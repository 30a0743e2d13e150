//! Inputs of a domain method that the domain cannot make itself: the time, the deadlines and fresh ids.

use uuid::Uuid;

use crate::{
    AgentLearningId, AgentSessionId, AgentTaskId, BrakeId, CommandId, Deadlines, EventId, HandoffDocumentId,
    MessageId, OutputId, RunId, SessionChainId, Timestamp,
};

/// A source of fresh ids. Functions use `UUIDv7`; tests use predictable ids.
pub trait IdSource: Send {
    /// Returns an id that was never returned before.
    fn fresh(&mut self) -> Uuid;
}

impl<F: FnMut() -> Uuid + Send> IdSource for F {
    fn fresh(&mut self) -> Uuid {
        self()
    }
}

pub struct DomainContext<'a> {
    /// By the control plane's clock.
    pub now: Timestamp,
    pub deadlines: Deadlines,
    ids: &'a mut dyn IdSource,
}

impl<'a> DomainContext<'a> {
    pub fn new(now: Timestamp, deadlines: Deadlines, ids: &'a mut dyn IdSource) -> Self {
        Self { now, deadlines, ids }
    }

    pub fn command_id(&mut self) -> CommandId {
        CommandId::new(self.ids.fresh())
    }

    pub fn message_id(&mut self) -> MessageId {
        MessageId::new(self.ids.fresh())
    }

    pub fn run_id(&mut self) -> RunId {
        RunId::new(self.ids.fresh())
    }

    pub fn event_id(&mut self) -> EventId {
        EventId::new(self.ids.fresh())
    }

    pub fn task_id(&mut self) -> AgentTaskId {
        AgentTaskId::new(self.ids.fresh())
    }

    pub fn learning_id(&mut self) -> AgentLearningId {
        AgentLearningId::new(self.ids.fresh())
    }

    pub fn session_id(&mut self) -> AgentSessionId {
        AgentSessionId::new(self.ids.fresh())
    }

    pub fn chain_id(&mut self) -> SessionChainId {
        SessionChainId::new(self.ids.fresh())
    }

    pub fn brake_id(&mut self) -> BrakeId {
        BrakeId::new(self.ids.fresh())
    }

    pub fn handoff_document_id(&mut self) -> HandoffDocumentId {
        HandoffDocumentId::new(self.ids.fresh())
    }

    /// For id types that have no method here: `AgentSkillId::new(ctx.uuid())`.
    pub fn uuid(&mut self) -> Uuid {
        self.ids.fresh()
    }

    pub fn output_id(&mut self) -> OutputId {
        OutputId::new(self.ids.fresh())
    }
}
