//! The `SessionChain` aggregate (S0 8.4, rulings 33 to 35): one piece of work over several sessions.
//!
//! A chain begins when the first context window of its work is full. Each handoff appends a session; the last one is the
//! current one. The texts of documents stand with the sessions that wrote and took them, so that a chain of hundreds of
//! sessions is still one small item; the chain has their ids and whose they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::owned::OwnedAggregate;
use crate::queue::SessionMessageQueue;
use crate::session::{AgentSession, AgentSessionStatus};
use crate::text::Objective;
use crate::value::RecordedHandoff;
use crate::{
    AgentSessionId, DomainEvent, Events, HandoffDocumentId, Occasion, SessionChainId, Timestamp, Usd, UserId,
};

/// Where a chain stands (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SessionChainStatus {
    /// It may go on in new sessions.
    Active,
    /// All work is done.
    Completed,
    /// Its owner ended it, with all of its sessions.
    Cancelled,
}

impl SessionChainStatus {
    /// Every status, in the order of S0 8.5.
    pub const ALL: [Self; 3] = [Self::Active, Self::Completed, Self::Cancelled];
}

impl std::fmt::Display for SessionChainStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// What can be done to a chain. Names follow the methods of S0 8.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainOperation {
    /// The document of the current session is there.
    InitiateHandoff,
    /// Another session goes on.
    AttachSession,
    /// The work is done.
    Complete,
    /// The owner ends it.
    Cancel,
}

impl ChainOperation {
    /// Every operation.
    pub const ALL: [Self; 4] = [Self::InitiateHandoff, Self::AttachSession, Self::Complete, Self::Cancel];

    /// **The transition table**: the status that follows `from`, or none where the operation is not valid.
    pub const fn next(self, from: SessionChainStatus) -> Option<SessionChainStatus> {
        use SessionChainStatus as S;
        match (self, from) {
            (Self::InitiateHandoff | Self::AttachSession, S::Active) => Some(S::Active),
            (Self::Complete, S::Active) => Some(S::Completed),
            (Self::Cancel, S::Active) => Some(S::Cancelled),
            (_, S::Completed | S::Cancelled) => None,
        }
    }
}

/// A session of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainedSession {
    /// The session.
    pub session_id: AgentSessionId,
    /// Its place, from 1.
    pub position: u32,
    /// Since when.
    pub joined_at: Timestamp,
}

/// A document that went, or is to go, from a session to the next (S0 8.4 `HandoffDocument`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// The document; its text stands with `from_session_id`.
    pub id: HandoffDocumentId,
    /// Who wrote it.
    pub from_session_id: AgentSessionId,
    /// Who has it; none until the next session is attached.
    pub to_session_id: Option<AgentSessionId>,
    /// Whether it was put together from what was recorded.
    pub synthesized: bool,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// A refusal. The chain is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// It is over.
    #[error("the chain is {status}; only an Active one goes on, is completed or cancelled")]
    NotActive {
        /// Where it stands.
        status: SessionChainStatus,
    },
    /// Only the current session hands over.
    #[error("session {given} is not the current session of the chain, which is {current}")]
    NotCurrent {
        /// Who was named.
        given: AgentSessionId,
        /// Who it is.
        current: AgentSessionId,
    },
    /// A session is in a chain once.
    #[error("session {0} is in the chain already")]
    AlreadyInChain(AgentSessionId),
    /// It has as many sessions as it takes.
    #[error("the chain has {max} sessions, which is the most; start the rest of the work as a new one")]
    Full {
        /// The most sessions.
        max: usize,
    },
    /// Its current session still works.
    #[error("the current session of the chain, {session}, is {status}{hint}")]
    CurrentBusy {
        /// That session.
        session: AgentSessionId,
        /// Where it stands.
        status: AgentSessionStatus,
        /// What to do.
        hint: &'static str,
    },
}

impl ChainError {
    /// The stable code (ruling 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotActive { .. } => "chain-over",
            Self::NotCurrent { .. } => "not-current",
            Self::AlreadyInChain(_) => "already-in-chain",
            Self::Full { .. } => "chain-full",
            Self::CurrentBusy { .. } => "chain-busy",
        }
    }
}

/// One piece of work over several sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionChain {
    id: SessionChainId,
    owner_id: UserId,
    original_objective: Objective,
    first: ChainedSession,
    /// Those after the first, in order.
    others: Vec<ChainedSession>,
    handoffs: Vec<Handoff>,
    status: SessionChainStatus,
    created_at: Timestamp,
    completed_at: Option<Timestamp>,
}

/// A handover that is to be committed as one: the chain, the session that ends and the one that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct HandedOver {
    /// The session that goes on, with the messages that waited.
    pub continuation: Conversation,
    /// What happened to the chain.
    pub of_chain: Events,
    /// What happened to the session that handed over.
    pub of_predecessor: Events,
    /// What happened to the one that goes on.
    pub of_continuation: Events,
}

/// What happened when a session of the owner's was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// To the chain.
    pub of_chain: Events,
    /// To the session that was the current one.
    pub of_current: Events,
    /// To the new one.
    pub of_new: Events,
}

/// Read access.
impl SessionChain {
    /// Its id.
    pub const fn id(&self) -> SessionChainId {
        self.id
    }

    /// Its owner.
    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// What its first session was to do.
    pub const fn original_objective(&self) -> &Objective {
        &self.original_objective
    }

    /// Its sessions, in order of their positions 1, 2, 3, …
    pub fn sessions(&self) -> impl DoubleEndedIterator<Item = &ChainedSession> + '_ {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// How many sessions it has.
    pub fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Never: a chain has a first session.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The place that the next session takes.
    pub fn next_position(&self) -> u32 {
        self.last().position + 1
    }

    fn last(&self) -> &ChainedSession {
        self.others.last().unwrap_or(&self.first)
    }

    /// The last one of its sessions.
    pub fn current_session_id(&self) -> AgentSessionId {
        self.last().session_id
    }

    /// Its documents, oldest first.
    pub fn handoffs(&self) -> &[Handoff] {
        &self.handoffs
    }

    /// The document of a session, once it handed over.
    pub fn handoff_from(&self, session: AgentSessionId) -> Option<&Handoff> {
        self.handoffs.iter().rev().find(|handoff| handoff.from_session_id == session)
    }

    /// Where it stands.
    pub const fn status(&self) -> SessionChainStatus {
        self.status
    }

    /// When it was created.
    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When it was completed or cancelled.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }
}

impl SessionChain {
    /// The most sessions of a chain: it is one item.
    pub const MAX_SESSIONS: usize = 800;

    /// `Create(ownerId, objective, firstSessionId)`: the chain of a session whose context window is full for the first
    /// time. Its id is the one that the session has (ruling 34: both are one transaction).
    pub fn create(
        id: SessionChainId,
        owner_id: UserId,
        original_objective: Objective,
        first_session_id: AgentSessionId,
        now: Timestamp,
    ) -> (Self, Events) {
        let created = DomainEvent::ChainCreated {
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

    /// The chain that begins with `events`; none when they begin none.
    pub fn begun_by(events: &Events, session: &AgentSession, now: Timestamp) -> Option<(Self, Events)> {
        let begins = |event: &DomainEvent| {
            matches!(
                event,
                DomainEvent::ContextExhausted { chain_id: None }
                    | DomainEvent::VoluntaryHandoff { chain_id: None, .. }
            )
        };
        let id = session.chain_id().filter(|_| events.iter().any(begins))?;
        let (owner, objective) = (session.owner_id().clone(), session.objective().clone());
        Some(Self::create(id, owner, objective, session.id(), now))
    }

    fn check(&self, operation: ChainOperation) -> Result<SessionChainStatus, ChainError> {
        operation.next(self.status).ok_or(ChainError::NotActive { status: self.status })
    }

    /// `InitiateHandoff(fromSessionId, …)`: the document of the current session is there. Another one of the same session
    /// takes its place until the next session is attached; the same one changes nothing.
    pub fn initiate_handoff(
        &mut self,
        from: AgentSessionId,
        recorded: &RecordedHandoff,
    ) -> Result<Events, ChainError> {
        self.check(ChainOperation::InitiateHandoff)?;
        let current = self.current_session_id();
        if from != current {
            return Err(ChainError::NotCurrent { given: from, current });
        }
        Ok(self.note_document(from, recorded))
    }

    /// A document that came after its session was followed by another: it stands in the place of the one that was given.
    /// Nothing when it is that one, or nothing was given.
    pub fn correct_document(&mut self, from: AgentSessionId, recorded: &RecordedHandoff) -> Events {
        if self.handoff_from(from).is_none() { Vec::new() } else { self.note_document(from, recorded) }
    }

    fn note_document(&mut self, from: AgentSessionId, recorded: &RecordedHandoff) -> Events {
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
        vec![DomainEvent::HandoffInitiated {
            chain_id: self.id,
            from_session_id: from,
            handoff_document_id: recorded.id,
            synthesized,
        }]
    }

    /// `AttachSession(newSessionId)`: the next session, which is the current one from now on and has the document that
    /// waits.
    pub fn attach_session(&mut self, new: AgentSessionId, now: Timestamp) -> Result<Events, ChainError> {
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
        Ok(vec![DomainEvent::AddedToChain { chain_id: self.id, new_session_id: new, position }])
    }

    /// Whether its owner may attach a session: the current one is over with its process, and no continuation of its own is
    /// on its way.
    pub fn ensure_open(&self, current: &AgentSession) -> Result<(), ChainError> {
        self.check(ChainOperation::AttachSession)?;
        let status = current.status();
        let hint = match status {
            AgentSessionStatus::ContextExhausted => ": it goes on by itself in a moment",
            status if status.is_terminal() => ", and its process is being ended; try again in a moment",
            AgentSessionStatus::Idle => "; say what is to be done to that session, or close it",
            _ => "; a session is attached when that one is over",
        };
        let over = status.is_terminal() && status != AgentSessionStatus::ContextExhausted;
        if over && current.run().is_none() {
            Ok(())
        } else {
            Err(ChainError::CurrentBusy { session: current.id(), status, hint })
        }
    }

    /// `Complete()`: the work is done. The current session is Idle, to be closed with it, or Completed.
    pub fn complete(
        &mut self,
        current: AgentSessionStatus,
        total_cost_usd: Usd,
        now: Timestamp,
    ) -> Result<Events, ChainError> {
        let next = self.check(ChainOperation::Complete)?;
        if !matches!(current, AgentSessionStatus::Idle | AgentSessionStatus::Completed) {
            let (session, hint) =
                (self.current_session_id(), "; a chain is completed when that one is Idle or Completed");
            return Err(ChainError::CurrentBusy { session, status: current, hint });
        }
        self.end(next, now);
        Ok(vec![DomainEvent::ChainCompleted {
            chain_id: self.id,
            total_sessions: self.len(),
            total_cost_usd,
        }])
    }

    /// `Cancel()`. Its sessions that are not over are cancelled by a reaction.
    pub fn cancel(&mut self, now: Timestamp) -> Result<Events, ChainError> {
        let next = self.check(ChainOperation::Cancel)?;
        self.end(next, now);
        Ok(vec![DomainEvent::ChainCancelled { chain_id: self.id }])
    }

    fn end(&mut self, status: SessionChainStatus, now: Timestamp) {
        self.status = status;
        self.completed_at.get_or_insert(now);
    }

    /// Whether a session is due to be followed by another: it is the current one, exhausted, its run is over, and its
    /// document is there or to be synthesized.
    pub fn waits_for_continuation(&self, session: &AgentSession) -> bool {
        self.status == SessionChainStatus::Active
            && self.current_session_id() == session.id()
            && session.status() == AgentSessionStatus::ContextExhausted
            && session.run().is_none()
    }

    /// The whole handover: the document, the new session with everything that is carried over, the messages that wait.
    /// `document` is what the predecessor has.
    pub fn hand_over(
        &mut self,
        from: &mut Conversation,
        document: &RecordedHandoff,
        cx: &mut Occasion<'_>,
    ) -> Result<HandedOver, ChainError> {
        let (before, new) = (from.session.id(), cx.session_id());
        let mut of_chain = self.initiate_handoff(before, document)?;
        let position = self.next_position();
        let (session, mut of_continuation) = from.session.continued(new, self, cx);
        of_chain.extend(self.attach_session(new, cx.now)?);

        let queue = from.queue.hand_on();
        let message_ids: Vec<_> = queue.messages().iter().map(|message| message.message_id).collect();
        of_continuation.push(DomainEvent::WorkTakenUp {
            chain_id: self.id,
            from_session_id: before,
            position,
            message_ids: message_ids.clone(),
        });
        Ok(HandedOver {
            continuation: Conversation::new(session, queue),
            of_chain,
            of_predecessor: from.session.hand_on(self.id, new, message_ids),
            of_continuation,
        })
    }

    /// The owner's own next session: it takes its place in the chain after `current`, which is over, and has the messages
    /// that still wait there.
    pub fn admit(
        &mut self,
        new: &mut Conversation,
        current: &mut Conversation,
        cx: &Occasion<'_>,
    ) -> Result<Admitted, ChainError> {
        self.ensure_open(&current.session)?;
        let (id, before) = (new.session.id(), current.session.id());
        let position = self.next_position();
        let of_chain = self.attach_session(id, cx.now)?;
        new.session.join(self.id, before, position, current.session.budget().account_usd());
        new.queue = current.queue.hand_on();
        let message_ids: Vec<_> = new.queue.messages().iter().map(|message| message.message_id).collect();
        let taken_up = DomainEvent::WorkTakenUp {
            chain_id: self.id,
            from_session_id: before,
            position,
            message_ids: message_ids.clone(),
        };
        let of_current = current.session.hand_on(self.id, id, message_ids);
        Ok(Admitted { of_chain, of_current, of_new: vec![taken_up] })
    }
}

impl OwnedAggregate for SessionChain {
    type Id = SessionChainId;

    const KIND: &'static str = "chain";

    fn id(&self) -> SessionChainId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }
}

impl Conversation {
    /// A document that came after the session was followed: the next one has it, if its agent has not begun; else it is
    /// told, at once (ruling 34).
    pub fn take_late_document(
        &mut self,
        from: AgentSessionId,
        late: &RecordedHandoff,
        cx: &mut Occasion<'_>,
    ) -> Events {
        if self.session.replace_inherited(from, late) {
            return vec![DomainEvent::HandoffDocumentRecorded { handoff_document_id: Some(late.id) }];
        }
        let text = format!("A handoff document of session {from} came late.\n\n{}", late.document.to_text());
        self.say_all(&text, cx)
    }

    /// What waits is dropped, as no session goes on with the work.
    pub fn abandon_queue(&mut self) -> Events {
        let (gone, events) = self.queue.end();
        self.closed_messages.extend(gone);
        events
    }
}

/// A queue that is handed on whole.
impl SessionMessageQueue {
    /// Hands everything on to the session that goes on with the work (ruling 30). What its agent may or may not have got
    /// stays marked so.
    pub(crate) fn hand_on(&mut self) -> Self {
        std::mem::take(self)
    }
}
