//! What a method needs from outside: the time and fresh ids.

use uuid::Uuid;

use crate::{
    AgentLearningId, AgentSessionId, AgentTaskId, CommandId, Deadlines, EventId, HandoffDocumentId,
    MessageId, OutputId, RunId, SessionChainId, Timestamp,
};

/// A source of fresh ids. The edge gives `UUIDv7`s; tests give what they can predict.
pub trait IdSource: Send {
    /// An id that was never given before.
    fn fresh(&mut self) -> Uuid;
}

impl<F: FnMut() -> Uuid + Send> IdSource for F {
    fn fresh(&mut self) -> Uuid {
        self()
    }
}

/// When something happens, and the ids that it may use.
pub struct Occasion<'a> {
    /// The control plane's clock.
    pub now: Timestamp,
    /// The limits of waiting that are in force.
    pub deadlines: Deadlines,
    ids: &'a mut dyn IdSource,
}

impl<'a> Occasion<'a> {
    /// An occasion at `now`.
    pub fn new(now: Timestamp, deadlines: Deadlines, ids: &'a mut dyn IdSource) -> Self {
        Self { now, deadlines, ids }
    }

    /// A fresh command id.
    pub fn command_id(&mut self) -> CommandId {
        CommandId::new(self.ids.fresh())
    }

    /// A fresh message id.
    pub fn message_id(&mut self) -> MessageId {
        MessageId::new(self.ids.fresh())
    }

    /// A fresh run id.
    pub fn run_id(&mut self) -> RunId {
        RunId::new(self.ids.fresh())
    }

    /// A fresh event id.
    pub fn event_id(&mut self) -> EventId {
        EventId::new(self.ids.fresh())
    }

    /// A fresh id of a task that an agent creates.
    pub fn task_id(&mut self) -> AgentTaskId {
        AgentTaskId::new(self.ids.fresh())
    }

    /// A fresh id of something that an agent learned.
    pub fn learning_id(&mut self) -> AgentLearningId {
        AgentLearningId::new(self.ids.fresh())
    }

    /// A fresh session id.
    pub fn session_id(&mut self) -> AgentSessionId {
        AgentSessionId::new(self.ids.fresh())
    }

    /// A fresh chain id.
    pub fn chain_id(&mut self) -> SessionChainId {
        SessionChainId::new(self.ids.fresh())
    }

    /// A fresh id of a handoff document.
    pub fn handoff_document_id(&mut self) -> HandoffDocumentId {
        HandoffDocumentId::new(self.ids.fresh())
    }

    /// A fresh id of any kind: `AgentSkillId::new(cx.uuid())`.
    pub fn uuid(&mut self) -> Uuid {
        self.ids.fresh()
    }

    /// A fresh output id.
    pub fn output_id(&mut self) -> OutputId {
        OutputId::new(self.ids.fresh())
    }
}
