//! Progress that the agent reports: its task list (S0 8.4), its deliverables (S4) and its conversations (S1 5).

use serde::{Deserialize, Serialize};

use super::AgentSession;
use crate::text::cut;
use crate::value::{AgentConversations, DeliverableCounts, SessionTask, SessionTaskList};
use crate::{DomainContext, Events, SessionEvent, Timestamp};

/// The progress that the agent last reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tasks: Option<SessionTaskList>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliverables: Option<RecordedDeliverables>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversations: Option<AgentConversations>,
}

/// Counts of the agent's deliverables. The full list is in the journal entry of the agent's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedDeliverables {
    pub counts: DeliverableCounts,
    /// The journal entry that contains the list.
    pub journal_sequence: u64,
}

impl Progress {
    pub(super) const fn tasks(&self) -> Option<&SessionTaskList> {
        self.tasks.as_ref()
    }

    pub(super) const fn conversations(&self) -> Option<&AgentConversations> {
        self.conversations.as_ref()
    }

    /// Replaces the task list. An unchanged task keeps its time.
    fn replace_tasks(&mut self, mut tasks: Vec<SessionTask>, now: Timestamp) -> SessionEvent {
        tasks.truncate(SessionTaskList::MAX_TASKS);
        for task in &mut tasks {
            task.subject = cut(&task.subject, 500);
            task.id = cut(&task.id, 200);
            task.active_form = task.active_form.as_deref().map(|f| cut(f, 500));
            let before = self.tasks.iter().flat_map(|list| &list.tasks).find(|old| old.id == task.id);
            task.updated_at = match before {
                Some(old) if old.status == task.status && old.subject == task.subject => old.updated_at,
                _ => now,
            };
        }
        let list = SessionTaskList { tasks, last_updated_at: now };
        let event =
            SessionEvent::TaskListUpdated { task_count: list.tasks.len(), completed_count: list.completed() };
        self.tasks = Some(list);
        event
    }
}

impl AgentSession {
    /// Replaces the task list (S0 8.4 `UpdateSessionTaskList`).
    pub(crate) fn replace_tasks(&mut self, tasks: Vec<SessionTask>, ctx: &DomainContext<'_>) -> Events {
        vec![self.progress.replace_tasks(tasks, ctx.now)]
    }

    /// Replaces the list by the one in this change's journal entry.
    pub(crate) fn record_deliverables(&mut self, counts: DeliverableCounts) -> Events {
        // The next journal entry records this change.
        let journal_sequence = self.journal_sequence + 1;
        self.progress.deliverables = Some(RecordedDeliverables { counts, journal_sequence });
        let DeliverableCounts { pending, passed, blocked } = counts;
        vec![SessionEvent::DeliverablesChanged { pending, passed, blocked }]
    }

    /// Replaces the agent's conversations. The change that caused the report has an event.
    pub(crate) fn record_conversations(&mut self, conversations: AgentConversations) -> Events {
        self.progress.conversations = Some(conversations.fitted());
        Events::new()
    }

    /// The latest counts; `None` if the agent reported no deliverables.
    pub const fn deliverables(&self) -> Option<RecordedDeliverables> {
        self.progress.deliverables
    }
}
