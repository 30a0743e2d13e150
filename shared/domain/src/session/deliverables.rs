//! Where the deliverables of the working directory stand (S4). The list itself stands in the journal entry of the agent's
//! event; the session keeps its place and what is counted of it.

use serde::{Deserialize, Serialize};

use super::AgentSession;
use crate::value::DeliverableCounts;
use crate::{DomainEvent, Events};

/// The latest list of deliverables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedDeliverables {
    /// How many stand where.
    pub counts: DeliverableCounts,
    /// The journal entry that holds the list.
    pub journal_sequence: u64,
}

impl AgentSession {
    /// `RecordDeliverables(…)`: the list is replaced by the one of this change's entry.
    pub(crate) fn record_deliverables(&mut self, counts: DeliverableCounts) -> Events {
        // The entry that records this is the next one.
        let journal_sequence = self.journal_sequence + 1;
        self.deliverables = Some(RecordedDeliverables { counts, journal_sequence });
        let DeliverableCounts { pending, passed, blocked } = counts;
        vec![DomainEvent::DeliverablesChanged { pending, passed, blocked }]
    }

    /// Its agent's deliverables; none where it told of none.
    pub const fn deliverables(&self) -> Option<RecordedDeliverables> {
        self.deliverables
    }
}
