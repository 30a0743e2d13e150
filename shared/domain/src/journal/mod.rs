//! The journal: every commit writes one entry.
//!
//! An entry records the cause of the change, its domain events and the lines that they add to the activity stream. If an event of
//! an agent is the cause, the entry contains that event in full, so that messages, tool calls and logs are views of the journal.
//! Sequences count a session's entries from 1 without gaps, and serve as cursors of its live stream.

mod aggregate;
mod repair;

pub use aggregate::{AggregateJournalEntry, AnyAggregateEntry};
pub use repair::RepairRule;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::DecisionChange;
use crate::session::{AgentSession, AgentSessionStatus};
use crate::value::{ActivityItem, ProjectMembership};
use crate::{AgentSessionId, EventId, Events, RunId, Timestamp, TraceParent, UserId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// Id of the entry. Reactions use it to be idempotent.
    pub id: EventId,
    pub session_id: AgentSessionId,
    pub owner_id: UserId,
    /// The agent of a project that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMembership>,
    pub sequence: u64,
    pub at: Timestamp,
    pub cause: Cause,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Events,
    /// Status of the session after this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentSessionStatus>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<ActivityItem>,
    /// Why an event of the agent changed nothing, or what it waits for (decision 17).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_reason: Option<String>,
    /// How the event of the agent was repaired before it was applied (decision 82).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<RepairRule>,
    /// The decisions that the change opened or ended, if the session belongs to a project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionChange>,
    /// Trace context of the cause, passed on to everything that follows from this entry.
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

/// What caused an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Cause {
    /// The owner called a function.
    Owner {
        /// Name of the function.
        function: String,
    },
    /// The agent called the agent API.
    AgentApi {
        /// Name of the function.
        function: String,
        /// Request body, where it is kept.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        body: Value,
    },
    /// A raw event of a run.
    Agent {
        /// Id of the run.
        run_id: RunId,
        /// Number of the run within its session.
        run: u32,
        /// Sequence of the event in its run; `null` for events that the runtime reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sequence: Option<u64>,
        /// When it happened, by the clock of the agent or its sidecar (S2 `sourceOccurredAt`). For information only: no decision depends
        /// on it. Absent for events that the runtime reported, and in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        occurred_at: Option<Timestamp>,
        /// The event as it was sent. Large texts are cut and marked with `truncated`; a blob holds them in full.
        body: Value,
    },
    /// A reaction to an earlier entry.
    Reaction {
        /// Name of the function.
        function: String,
    },
    /// A deadline that the clock found.
    Clock,
}

impl JournalEntry {
    /// Creates the session's next entry, with these lines of the activity stream.
    pub fn record(
        session: &mut AgentSession,
        id: EventId,
        at: Timestamp,
        cause: Cause,
        events: Events,
        activity: Vec<ActivityItem>,
    ) -> Self {
        session.updated_at = session.updated_at.max(at);
        Self {
            id,
            session_id: session.id(),
            owner_id: session.owner_id().clone(),
            project: session.project().cloned(),
            sequence: session.next_journal_sequence(),
            at,
            cause,
            events,
            status: Some(session.status()),
            activity,
            ignored_reason: None,
            repairs: Vec::new(),
            decisions: session.take_decision_changes(),
            traceparent: None,
        }
    }
}
