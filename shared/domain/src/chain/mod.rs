//! The `SessionChain` aggregate (S0 8.4, decisions 33 to 35): one piece of work that spans several sessions.
//!
//! A chain is created when the context window of its first session is full. Each handoff appends a session; the last one is the
//! current session. A chain must stay a small item even with hundreds of sessions. It therefore holds only the ids of handoff
//! documents; the sessions that wrote or received them hold the texts.
//!
//! | module | contents |
//! |---|---|
//! | `status` | the transition table, and refusals |
//! | `handover` | the session that continues the work |
//! | `failed_handoff` | the decision about work that cannot be handed over |

mod event;
mod failed_handoff;
mod handover;
mod status;

pub use event::ChainEvent;
pub use handover::{Admitted, HandedOver};
pub use status::{ChainError, ChainOperation, SessionChainStatus};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::aggregate::Aggregate;
use crate::session::{AgentSession, AgentSessionStatus};
use crate::text::Objective;
use crate::value::RecordedHandoff;
use crate::{AgentSessionId, HandoffDocumentId, SessionChainId, SessionEvent, Timestamp, Usd, UserId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionChain {
    id: SessionChainId,
    owner_id: UserId,
    original_objective: Objective,
    first: ChainedSession,
    /// All sessions after the first, in order.
    others: Vec<ChainedSession>,
    handoffs: Vec<Handoff>,
    status: SessionChainStatus,
    created_at: Timestamp,
    completed_at: Option<Timestamp>,
}

/// A session of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainedSession {
    /// Id of the session.
    pub session_id: AgentSessionId,
    /// Position in the chain, from 1.
    pub position: u32,
    /// When the session joined the chain.
    pub joined_at: Timestamp,
}

/// A handoff document that passes from one session to the next (S0 8.4 `HandoffDocument`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// Id of the document. Its text is stored with `fromSessionId`.
    pub id: HandoffDocumentId,
    /// The session that wrote the document.
    pub from_session_id: AgentSessionId,
    /// The session that received it; `null` until the next session is attached.
    pub to_session_id: Option<AgentSessionId>,
    /// Whether Pilothouse assembled the document from the session's records instead of the agent writing it.
    pub synthesized: bool,
    /// When the document was recorded.
    pub created_at: Timestamp,
}

impl SessionChain {
    pub const fn id(&self) -> SessionChainId {
        self.id
    }

    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    pub const fn original_objective(&self) -> &Objective {
        &self.original_objective
    }

    /// In order of their positions.
    pub fn sessions(&self) -> impl DoubleEndedIterator<Item = &ChainedSession> + '_ {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// A chain has at least one session.
    pub const fn is_empty(&self) -> bool {
        false
    }

    pub fn next_position(&self) -> u32 {
        self.last().position + 1
    }

    fn last(&self) -> &ChainedSession {
        self.others.last().unwrap_or(&self.first)
    }

    pub fn current_session_id(&self) -> AgentSessionId {
        self.last().session_id
    }

    /// Oldest first.
    pub fn handoffs(&self) -> &[Handoff] {
        &self.handoffs
    }

    /// The latest handoff document of a session.
    pub fn handoff_from(&self, session: AgentSessionId) -> Option<&Handoff> {
        self.handoffs.iter().rev().find(|handoff| handoff.from_session_id == session)
    }

    pub const fn status(&self) -> SessionChainStatus {
        self.status
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When the chain was completed or cancelled.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    /// Most sessions of a chain, which is stored as a single item.
    pub const MAX_SESSIONS: usize = 800;

    /// Creates the chain of a session whose context window is full for the first time. `id` is the chain id that the session
    /// already has; both are committed in one transaction (decision 34).
    pub fn create(
        id: SessionChainId,
        owner_id: UserId,
        original_objective: Objective,
        first_session_id: AgentSessionId,
        now: Timestamp,
    ) -> (Self, Vec<ChainEvent>) {
        let created = ChainEvent::Created {
            chain_id: id,
            original_objective: original_objective.as_str().to_owned(),
            first_session_id,
        };
        let chain = Self {
            id,
            owner_id,
            original_objective,
            first: ChainedSession { session_id: first_session_id, position: 1, joined_at: now },
            others: Vec::new(),
            handoffs: Vec::new(),
            status: SessionChainStatus::Active,
            created_at: now,
            completed_at: None,
        };
        (chain, vec![created])
    }

    /// Creates the chain if `events` contain the first exhaustion or handoff of `session`.
    pub fn from_handoff(
        events: &[SessionEvent],
        session: &AgentSession,
        now: Timestamp,
    ) -> Option<(Self, Vec<ChainEvent>)> {
        let begins = |event: &SessionEvent| {
            matches!(
                event,
                SessionEvent::ContextExhausted { chain_id: None }
                    | SessionEvent::VoluntaryHandoff { chain_id: None, .. }
            )
        };
        let id = session.chain_id().filter(|_| events.iter().any(begins))?;
        let (owner, objective) = (session.owner_id().clone(), session.objective().clone());
        Some(Self::create(id, owner, objective, session.id(), now))
    }

    fn check(&self, operation: ChainOperation) -> Result<SessionChainStatus, ChainError> {
        operation.next(self.status).ok_or(ChainError::NotActive { status: self.status })
    }

    /// Records the handoff document of the current session (S0 8.4 `InitiateHandoff`). A different document of the same session
    /// replaces it until the next session is attached; the same document changes nothing.
    pub fn initiate_handoff(
        &mut self,
        from: AgentSessionId,
        recorded: &RecordedHandoff,
    ) -> Result<Vec<ChainEvent>, ChainError> {
        self.check(ChainOperation::InitiateHandoff)?;
        let current = self.current_session_id();
        if from != current {
            return Err(ChainError::NotCurrent { given: from, current });
        }
        Ok(self.note_document(from, recorded))
    }

    /// Replaces the handoff document of a session that already has a successor. Does nothing if the document is the same or none
    /// was recorded before.
    pub fn correct_document(&mut self, from: AgentSessionId, recorded: &RecordedHandoff) -> Vec<ChainEvent> {
        if self.handoff_from(from).is_none() { Vec::new() } else { self.note_document(from, recorded) }
    }

    fn note_document(&mut self, from: AgentSessionId, recorded: &RecordedHandoff) -> Vec<ChainEvent> {
        let synthesized = recorded.document.synthesized;
        let mut noted = Handoff {
            id: recorded.id,
            from_session_id: from,
            to_session_id: None,
            synthesized,
            created_at: recorded.created_at,
        };
        match self.handoffs.iter_mut().rev().find(|handoff| handoff.from_session_id == from) {
            Some(known) if known.id == recorded.id => return Vec::new(),
            Some(known) => {
                noted.to_session_id = known.to_session_id;
                *known = noted;
            }
            None => self.handoffs.push(noted),
        }
        vec![ChainEvent::HandoffInitiated {
            chain_id: self.id,
            from_session_id: from,
            handoff_document_id: recorded.id,
            synthesized,
        }]
    }

    /// Appends a session, which becomes the current one and receives the waiting document (S0 8.4 `AttachSession`).
    pub fn attach_session(
        &mut self,
        new: AgentSessionId,
        now: Timestamp,
    ) -> Result<Vec<ChainEvent>, ChainError> {
        self.check(ChainOperation::AttachSession)?;
        if self.sessions().any(|chained| chained.session_id == new) {
            return Err(ChainError::AlreadyInChain(new));
        }
        if self.len() >= Self::MAX_SESSIONS {
            return Err(ChainError::Full { max: Self::MAX_SESSIONS });
        }
        let (from, position) = (self.current_session_id(), self.next_position());
        if let Some(waiting) = self.handoffs.last_mut().filter(|handoff| handoff.from_session_id == from) {
            waiting.to_session_id = Some(new);
        }
        self.others.push(ChainedSession { session_id: new, position, joined_at: now });
        Ok(vec![ChainEvent::SessionAdded { chain_id: self.id, new_session_id: new, position }])
    }

    /// Completes the chain (S0 8.4 `Complete`). The current session must be Idle, to be closed with the chain, or Completed.
    pub fn complete(
        &mut self,
        current: AgentSessionStatus,
        total_cost_usd: Usd,
        now: Timestamp,
    ) -> Result<Vec<ChainEvent>, ChainError> {
        let next = self.check(ChainOperation::Complete)?;
        if !matches!(current, AgentSessionStatus::Idle | AgentSessionStatus::Completed) {
            let (session, hint) =
                (self.current_session_id(), "; complete the chain when that one is Idle or Completed");
            return Err(ChainError::CurrentBusy { session, status: current, hint });
        }
        self.end(next, now);
        Ok(vec![ChainEvent::Completed { chain_id: self.id, total_sessions: self.len(), total_cost_usd }])
    }

    /// Cancels the chain (S0 8.4 `Cancel`). A reaction cancels the sessions that have not ended.
    pub fn cancel(&mut self, now: Timestamp) -> Result<Vec<ChainEvent>, ChainError> {
        let next = self.check(ChainOperation::Cancel)?;
        self.end(next, now);
        Ok(vec![ChainEvent::Cancelled { chain_id: self.id }])
    }

    fn end(&mut self, status: SessionChainStatus, now: Timestamp) {
        self.status = status;
        self.completed_at.get_or_insert(now);
    }
}

impl Aggregate for SessionChain {
    type Id = SessionChainId;
    type Event = ChainEvent;

    const KIND: &'static str = "chain";

    fn id(&self) -> SessionChainId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }
}
