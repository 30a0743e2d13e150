//! What a session leaves to another, and what it took over (S0 8.4, 8.10, rulings 30, 33 to 35).

use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus, NewSession};
use crate::chain::SessionChain;
use crate::value::{HandoffDocument, RecordedHandoff};
use crate::{AgentSessionId, DomainEvent, Events, MessageId, Occasion, SessionChainId, Usd};

/// What a session took over from the one before it in its chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continues {
    /// The session before it.
    pub session_id: AgentSessionId,
    /// Its own place in the chain, from 1.
    pub position: u32,
    /// The document that its agent is given; none where the owner attached it to the chain.
    pub document: Option<RecordedHandoff>,
}

/// Read access.
impl AgentSession {
    /// The document that it leaves to whoever goes on.
    pub const fn handoff_document(&self) -> Option<&RecordedHandoff> {
        self.handoff_document.as_ref()
    }

    /// What it took over.
    pub const fn continues(&self) -> Option<&Continues> {
        self.continues.as_ref()
    }

    /// The session that goes on with its work.
    pub const fn continuation(&self) -> Option<AgentSessionId> {
        self.continuation
    }

    /// Its context is full and its agent may still write the document.
    pub const fn awaits_document(&self) -> bool {
        self.document_awaited_until.is_some()
    }
}

impl AgentSession {
    /// Takes the document that its agent wrote, or that was put together for it. The latest of the agent's own stands; a
    /// synthesized one never takes its place. The same again changes nothing: a document that comes through the agent
    /// API and as a raw event counts once.
    pub fn record_handoff(&mut self, document: HandoffDocument, cx: &mut Occasion<'_>) -> Events {
        let known = self.handoff_document.as_ref().map(|known| &known.document);
        let stands =
            known.is_some_and(|known| *known == document || (document.synthesized && !known.synthesized));
        if !document.synthesized {
            self.await_no_document();
        }
        if stands {
            return Vec::new();
        }
        let id = cx.handoff_document_id();
        self.handoff_document = Some(RecordedHandoff { id, created_at: cx.now, document });
        vec![DomainEvent::HandoffDocumentRecorded { handoff_document_id: Some(id) }]
    }

    /// The agent may still write its document, as long as it lives and not for ever.
    pub(crate) fn await_document(&mut self, cx: &Occasion<'_>) {
        let has_one = self.handoff_document.as_ref().is_some_and(|known| !known.document.synthesized);
        self.document_awaited_until = (self.is_live() && !has_one).then(|| cx.now + cx.deadlines.handed_over);
    }

    pub(crate) const fn await_no_document(&mut self) {
        self.document_awaited_until = None;
    }

    /// Another session goes on with its work.
    pub fn hand_on(
        &mut self,
        chain_id: SessionChainId,
        continuation: AgentSessionId,
        message_ids: Vec<MessageId>,
    ) -> Events {
        self.continuation = Some(continuation);
        self.chain_id = Some(chain_id);
        self.touch_control();
        vec![DomainEvent::WorkHandedOn { chain_id, continuation, message_ids }]
    }

    /// The session that goes on with the work of `self` in `chain`: its objective is the chain's, everything else is as
    /// it was (ruling 34).
    pub fn continued(&self, id: AgentSessionId, chain: &SessionChain, cx: &Occasion<'_>) -> (Self, Events) {
        let new = NewSession {
            id,
            owner_id: self.owner_id.clone(),
            template_id: self.template_id,
            name: Some(self.name.clone()),
            working_directory: self.working_directory.clone(),
            objective: chain.original_objective().clone(),
            model_id: self.model_id.clone(),
            budget: self.budget.continued(self.budget.account_usd()),
            auto_continue: None,
            settings: self.settings.clone(),
        };
        let (mut session, events) = Self::create(new, cx);
        session.enabled_skill_ids.clone_from(&self.enabled_skill_ids);
        // How often it went on by itself counts for the work as a whole: a handoff is no new beginning.
        session.auto_continue.clone_from(&self.auto_continue);
        session.execution_mode = self.execution_mode;
        session.chain_id = Some(chain.id());
        session.continues = Some(Continues {
            session_id: self.id,
            position: chain.next_position(),
            document: self.handoff_document.clone(),
        });
        (session, events)
    }

    /// A new session takes its place in a chain that its owner named; what the chain spent counts (ruling 33).
    pub(crate) fn join(
        &mut self,
        chain_id: SessionChainId,
        before: AgentSessionId,
        position: u32,
        carried_usd: Usd,
    ) {
        self.chain_id = Some(chain_id);
        self.continues = Some(Continues { session_id: before, position, document: None });
        self.budget = self.budget.continued(carried_usd);
    }

    /// Replaces the document that its agent is given, as long as it has not begun. Whether it did.
    pub(crate) fn replace_inherited(&mut self, from: AgentSessionId, document: &RecordedHandoff) -> bool {
        let unbegun = self.started_at.is_none() && self.status() == AgentSessionStatus::Queued;
        match &mut self.continues {
            Some(continues) if unbegun && continues.session_id == from => {
                continues.document = Some(document.clone());
                self.touch_control();
                true
            }
            _ => false,
        }
    }
}
