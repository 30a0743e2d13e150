//! Handoff documents and continuations (S0 8.4, 8.10, decisions 30, 33 to 35).

use super::{
    AgentSession, AgentSessionStatus, ChainPlace, Continues, NewSession, Operation, SessionError, State,
    WorkStop,
};
use crate::value::{HandoffDocument, HandoffSource, RecordedHandoff};
use crate::{AgentSessionId, DomainContext, Events, MessageId, SessionChainId, SessionEvent, Timestamp, Usd};

impl AgentSession {
    /// The document that this session leaves to its continuation.
    pub const fn handoff_document(&self) -> Option<&RecordedHandoff> {
        self.chain.handoff_document()
    }

    /// `None` if the session continues no other.
    pub const fn continues(&self) -> Option<&Continues> {
        self.chain.continues()
    }

    /// The session that continues this one's work.
    pub const fn continuation(&self) -> Option<AgentSessionId> {
        self.chain.continuation()
    }

    /// Why no session continues this one's work, although its context is full.
    pub const fn work_stop(&self) -> Option<WorkStop> {
        self.chain.stop()
    }

    /// The records from which a handoff document is synthesized. `last_messages` are those of the agent, oldest first.
    pub fn handoff_source<'a>(&'a self, last_messages: &'a [String]) -> HandoffSource<'a> {
        HandoffSource {
            tasks: self.task_list().map_or(&[][..], |list| &list.tasks),
            plan: self.plan().and_then(|plan| plan.content.as_ref()),
            last_messages,
        }
    }

    /// Whether the context is full and the agent may still write the document.
    pub const fn awaits_document(&self) -> bool {
        matches!(self.state, State::ContextExhausted { document_awaited_until: Some(_) })
    }
}

impl AgentSession {
    /// Records a handoff document, written by the agent or synthesized. A later document of the agent replaces an earlier one; a
    /// synthesized document never does. An identical document changes nothing, because the agent API and a raw event may both
    /// deliver it.
    pub fn record_handoff(&mut self, document: HandoffDocument, ctx: &mut DomainContext<'_>) -> Events {
        let known = self.chain.handoff_document().map(|known| &known.document);
        let stands =
            known.is_some_and(|known| *known == document || (document.synthesized && !known.synthesized));
        if !document.synthesized {
            self.stop_awaiting_document();
        }
        if stands {
            return Vec::new();
        }
        let id = ctx.handoff_document_id();
        self.chain.record_document(RecordedHandoff { id, created_at: ctx.now, document });
        vec![SessionEvent::HandoffDocumentRecorded { handoff_document_id: Some(id) }]
    }

    /// Until when a live agent may write its document; `None` if it has written one.
    pub(super) fn document_time(&self, ctx: &DomainContext<'_>) -> Option<Timestamp> {
        (self.is_live() && !self.chain.has_own_document()).then(|| ctx.now + ctx.deadlines.handoff_timeout)
    }

    /// When the document is given up.
    pub(super) const fn document_deadline(&self) -> Option<Timestamp> {
        match self.state {
            State::ContextExhausted { document_awaited_until } => document_awaited_until,
            _ => None,
        }
    }

    pub(crate) const fn stop_awaiting_document(&mut self) {
        if let State::ContextExhausted { document_awaited_until } = &mut self.state {
            *document_awaited_until = None;
        }
    }

    /// Records that no session continues the work of this one, whose context is full and whose run is over.
    pub fn stop_work(&mut self, chain_id: SessionChainId, reason: WorkStop) -> Events {
        if !self.chain.stop_for(reason) {
            return Vec::new();
        }
        self.touch_control();
        vec![SessionEvent::WorkStopped { chain_id, reason }]
    }

    pub fn hand_off(
        &mut self,
        chain_id: SessionChainId,
        continuation: AgentSessionId,
        message_ids: Vec<MessageId>,
    ) -> Events {
        self.chain.hand_off(chain_id, continuation);
        self.touch_control();
        vec![SessionEvent::WorkHandedOn { chain_id, continuation, message_ids }]
    }

    /// Creates the session that continues the work of `self`. Its objective is the chain's; all else is inherited (decision 34).
    pub fn continued(
        &self,
        id: AgentSessionId,
        place: ChainPlace,
        ctx: &DomainContext<'_>,
    ) -> (Self, Events) {
        let ChainPlace { chain_id, position, objective } = place;
        let new = NewSession {
            id,
            owner_id: self.owner_id.clone(),
            template_id: self.definition.template_id,
            name: Some(self.definition.name.clone()),
            working_directory: self.definition.working_directory.clone(),
            objective: objective.clone(),
            model_id: self.definition.model_id.clone(),
            budget: self.budget().continued(self.budget().account_usd()),
            auto_continue: None,
            settings: self.definition.settings.clone(),
        };
        let (mut session, events) = Self::create(new, ctx);
        session.definition = self.definition.continued(objective);
        // Continuations count for the work as a whole, so a handoff does not reset the count.
        session.auto_continue.clone_from(&self.auto_continue);
        let document = self.chain.handoff_document().cloned();
        session.chain.join(chain_id, Continues { session_id: self.id, position, document });
        (session, events)
    }

    /// Creates the session with which the agent of a project starts again after a crash (decision 81). It inherits all but the
    /// conversation, and its budget counts what was spent so far. The failed session cannot be retried any more.
    ///
    /// # Errors
    /// Those of [`Self::check_restart`].
    pub(crate) fn restart(
        &mut self,
        id: AgentSessionId,
        ctx: &DomainContext<'_>,
    ) -> Result<(Self, Events), SessionError> {
        self.check_restart()?;
        let new = NewSession {
            id,
            owner_id: self.owner_id.clone(),
            template_id: self.definition.template_id,
            name: Some(self.definition.name.clone()),
            working_directory: self.definition.working_directory.clone(),
            objective: self.definition.objective.clone(),
            model_id: self.definition.model_id.clone(),
            budget: self.budget().continued(self.budget().account_usd()),
            auto_continue: self.auto_continue.clone(),
            settings: self.definition.settings.clone(),
        };
        let (mut session, events) = Self::create(new, ctx);
        session.definition = self.definition.continued(self.definition.objective.clone());
        session.definition.images.clone_from(&self.definition.images);
        self.chain.restart(id);
        self.touch_control();
        Ok((session, events))
    }

    /// Whether the agent can start again.
    ///
    /// # Errors
    /// The session did not fail, continues elsewhere, or has used up its budget. [`SessionError::ProcessStopping`] until its run has
    /// ended, because the end decides which messages wait.
    pub(crate) fn check_restart(&self) -> Result<(), SessionError> {
        self.check(Operation::Retry)?;
        if let Some(continuation) = self.chain.continuation() {
            return Err(SessionError::Continued { continuation });
        }
        self.spending.ensure_budget()?;
        if self.run_state.current().is_some() {
            return Err(SessionError::ProcessStopping);
        }
        Ok(())
    }

    /// Puts a new session into a chain that its owner named. What the chain spent counts for its budget (decision 33).
    pub(crate) fn join(
        &mut self,
        chain_id: SessionChainId,
        before: AgentSessionId,
        position: u32,
        carried_usd: Usd,
    ) {
        self.chain.join(chain_id, Continues { session_id: before, position, document: None });
        self.spending.set_budget(self.budget().continued(carried_usd));
    }

    /// Puts the session with which an agent starts again behind the failed one in their chain. It gets the document that the failed one
    /// received.
    pub(crate) fn rejoin(&mut self, chain_id: SessionChainId, failed: &Self, position: u32) {
        let document = failed.continues().and_then(|continues| continues.document.clone());
        self.chain.join(chain_id, Continues { session_id: failed.id, position, document });
    }

    /// Replaces the inherited document if the agent has not started. Returns whether it did.
    pub(crate) fn replace_inherited(&mut self, from: AgentSessionId, document: &RecordedHandoff) -> bool {
        let unbegun = self.started_at.is_none() && self.status() == AgentSessionStatus::Queued;
        let replaced = unbegun && self.chain.replace_inherited(from, document);
        if replaced {
            self.touch_control();
        }
        replaced
    }
}
