//! The tasks and learnings that the events of a session record.

use crate::agent_api::{AgentItem, AgentLearning, AgentTask};
use crate::{AgentSessionId, SessionEvent, Timestamp, UserId};

impl AgentItem {
    /// The task or learning that a session's event records, if any.
    pub fn of(
        event: &SessionEvent,
        session_id: AgentSessionId,
        owner_id: &UserId,
        created_at: Timestamp,
    ) -> Option<Self> {
        let owner_id = owner_id.clone();
        match event {
            SessionEvent::ApiTaskCreated { created_task_id: id, task, .. } => {
                Some(Self::Task(AgentTask { id: *id, session_id, owner_id, task: task.clone(), created_at }))
            }
            SessionEvent::LearningRecorded { learning_id: id, learning } => {
                Some(Self::Learning(AgentLearning {
                    id: *id,
                    session_id,
                    owner_id,
                    learning: learning.clone(),
                    created_at,
                }))
            }
            _ => None,
        }
    }
}
