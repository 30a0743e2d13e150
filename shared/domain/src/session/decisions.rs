//! Decisions of the inbox that a session opens and ends (decision 74). Requests and the output are the truth; this module records
//! which decisions a change opened or ended, and the commit stores them.

use std::collections::{BTreeMap, BTreeSet};

use super::requests::UnacknowledgedAnswer;
use super::{AgentSession, AgentSessionStatus, CheckpointCause, PendingRequest, RequestAnswer, RequestKind};
use crate::decision::{
    CancelReason, Decision, DecisionChange, DecisionSession, DecisionState, DecisionSubject, DecisionTimeout,
    OwnerDecision, Resolution, ResolutionDelivery, ResolvedBy, Ruling, decision_id,
};
use crate::{CommandId, DecisionId, DomainContext, Events, RunId, Timestamp, ToolCallId};

/// The decisions that the current change opened or ended, in their latest state. They are not part of the session's state: they are
/// not stored with it, and sessions that differ only in them are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct DecisionChanges {
    latest: BTreeMap<DecisionId, Decision>,
    /// Those that no journal entry names yet.
    unjournaled: BTreeSet<DecisionId>,
}

impl PartialEq for DecisionChanges {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl DecisionChanges {
    /// Records a decision. The first final state of a change stays.
    fn record(&mut self, decision: Decision) {
        if !self.latest.get(&decision.id).is_some_and(|recorded| recorded.state.is_final()) {
            self.unjournaled.insert(decision.id);
            self.latest.insert(decision.id, decision);
        }
    }
}

/// An answer that the agent has to get as a message.
#[derive(Debug, Clone)]
pub(crate) struct TakenAnswer {
    pub(crate) request_id: ToolCallId,
    /// The message.
    pub(crate) text: String,
}

impl TakenAnswer {
    fn of(answer: &UnacknowledgedAnswer) -> Self {
        let text = answer.answer.as_message(answer.resolves.as_deref());
        Self { request_id: answer.request_id.clone(), text }
    }
}

impl AgentSession {
    /// The decisions that were opened or ended since the session was loaded.
    pub fn changed_decisions(&self) -> impl Iterator<Item = &Decision> {
        self.decision_changes.latest.values()
    }

    /// The decisions that were opened or ended since the last journal entry. Those of sessions without a project are not journaled,
    /// because only the streams of projects need them.
    pub(crate) fn take_decision_changes(&mut self) -> Vec<DecisionChange> {
        let ids = std::mem::take(&mut self.decision_changes.unjournaled);
        if self.project().is_none() {
            return Vec::new();
        }
        let state = |id| self.decision_changes.latest.get(&id).map(Decision::status);
        ids.into_iter().filter_map(|id| Some(DecisionChange { id, state: state(id)? })).collect()
    }

    /// The open decision with this id; `None` if it is over.
    pub fn open_decision(&self, id: DecisionId) -> Option<Decision> {
        self.open_decisions().find(|decision| decision.id == id)
    }

    /// The open decisions: requests of the agent, and the review of its output.
    pub fn open_decisions(&self) -> impl Iterator<Item = Decision> {
        let requests = self.requests.pending().iter().map(|request| self.decision_on(request));
        let output = self.reviewed_decision().filter(|_| !self.status().is_terminal());
        requests.chain(output)
    }

    /// The id of the decision about an open request.
    pub(super) fn decision_about(&self, request: &ToolCallId) -> Option<DecisionId> {
        let open = self.requests.get(request)?;
        Some(decision_id(self.id, self.requests.run_of(&open.id), open.id.as_str()))
    }

    fn new_decision(
        &self,
        (request, run): (&str, Option<RunId>),
        subject: DecisionSubject,
        created_at: Timestamp,
        (expires_at, timeout): (Option<Timestamp>, Option<DecisionTimeout>),
    ) -> Decision {
        let (severity, blast_radius) = subject.classification().unzip();
        let severity = timeout.as_ref().and_then(|timeout| timeout.severity).or(severity);
        Decision {
            id: decision_id(self.id, run, request),
            owner_id: self.owner_id.clone(),
            session: Some(DecisionSession {
                session_id: self.id,
                session_name: self.definition.name.as_str().to_owned(),
            }),
            project: self.project().cloned(),
            subject,
            severity,
            blast_radius,
            created_at,
            expires_at,
            timeout,
            state: DecisionState::Pending,
        }
    }

    pub(super) fn decision_on(&self, request: &PendingRequest) -> Decision {
        let id = request.id.clone();
        let subject = match &request.kind {
            RequestKind::Question { questions, approval, proposal } => {
                DecisionSubject::of_questions(id, questions, approval.as_ref(), proposal.as_deref())
            }
            RequestKind::Plan { version } => DecisionSubject::Plan { request_id: id, version: *version },
        };
        let source = (request.id.as_str(), self.requests.run_of(&request.id));
        let deadline = (request.expires_at, request.timeout.as_deref().cloned());
        let mut decision = self.new_decision(source, subject, request.asked_at, deadline);
        if let Some(held) = self.held_by().first() {
            decision.state = DecisionState::Suspended { brake_id: held.brake_id, since: held.since };
        }
        decision
    }

    /// The decision on the output that waits for its review.
    fn reviewed_decision(&self) -> Option<Decision> {
        let recorded = self.review.output().filter(|_| self.review.is_pending())?;
        let subject =
            DecisionSubject::OutputReview { output_id: recorded.output_id, output: recorded.output.clone() };
        // The id of an output is unique, so that its run does not matter.
        let source = (&*recorded.output_id.to_string(), None);
        Some(self.new_decision(source, subject, recorded.recorded_at, (None, None)))
    }

    pub(super) fn record_opened(&mut self, id: &ToolCallId) {
        if let Some(decision) = self.requests.get(id).map(|request| self.decision_on(request)) {
            self.decision_changes.record(decision);
        }
    }

    /// The agent waits for a person, so its conversation is complete up to here.
    pub(super) fn checkpoint_decision(&mut self, now: Timestamp) {
        let pending = self.open_decision_ids();
        self.make_checkpoint(CheckpointCause::Decision, pending, now);
    }

    /// Records all open requests again, because their deadlines moved, or a brake took hold or was released.
    pub(super) fn record_open_requests(&mut self) {
        let open: Vec<_> = self.requests.pending().iter().map(|request| self.decision_on(request)).collect();
        for decision in open {
            self.decision_changes.record(decision);
        }
    }

    pub(super) fn record_review_opened(&mut self) {
        if let Some(decision) = self.reviewed_decision() {
            self.checkpoint_decision(decision.created_at);
            self.decision_changes.record(decision);
        }
    }

    /// The owner as the person who resolves.
    pub(super) fn owner(&self) -> ResolvedBy {
        ResolvedBy::Owner { id: self.owner_id.clone() }
    }

    fn record_end(&mut self, mut decision: Decision, state: DecisionState) {
        decision.state = state;
        self.decision_changes.record(decision);
    }

    /// Records that nobody decided on a request in time.
    pub(super) fn record_expired(&mut self, request: &PendingRequest, now: Timestamp) {
        let decision = self.decision_on(request);
        self.record_end(decision, DecisionState::Expired { ended_at: now });
    }

    /// Records that a request ends without a decision.
    pub(super) fn record_withdrawn(&mut self, call: &ToolCallId, now: Timestamp) {
        if let Some(decision) = self.requests.get(call).map(|request| self.decision_on(request)) {
            let state = DecisionState::Cancelled { ended_at: now, reason: CancelReason::Withdrawn };
            self.record_end(decision, state);
        }
    }

    /// Closes all requests without a decision. If a session of a project ends, its decisions become free (decision 81).
    pub(super) fn close_requests(&mut self, reason: CancelReason, now: Timestamp) -> Events {
        let is_end = matches!(reason, CancelReason::SessionCancelled | CancelReason::SessionFailed);
        let orphans = is_end && self.project().is_some();
        let open: Vec<_> = self.requests.pending().iter().map(|request| self.decision_on(request)).collect();
        for mut decision in open {
            if orphans {
                decision.orphan(reason, now);
                self.decision_changes.record(decision);
            } else {
                self.record_end(decision, DecisionState::Cancelled { ended_at: now, reason });
            }
        }
        self.requests.close_all()
    }

    /// The decision on an open request with its resolution.
    pub(super) fn resolving(
        &self,
        id: &ToolCallId,
        answer: &RequestAnswer,
        resolved_by: ResolvedBy,
        now: Timestamp,
    ) -> Option<Decision> {
        let mut decision = self.requests.get(id).map(|request| self.decision_on(request))?;
        let resolution = match answer {
            RequestAnswer::Answered(answers) => decision.subject.resolution_of(answers),
            RequestAnswer::Allowed { terms, .. } => terms.resolution(),
            RequestAnswer::Approved => Resolution::APPROVE,
            RequestAnswer::Rejected(feedback) => {
                Resolution::Reject { rationale: Some(feedback.as_str().to_owned()) }
            }
        };
        decision.state =
            DecisionState::Resolving { ruling: Ruling { resolution, resolved_by, resolved_at: now } };
        Some(decision)
    }

    pub(super) fn record_resolving(&mut self, decision: &Decision) {
        self.decision_changes.record(decision.clone());
    }

    /// Records that the resolution of a decision reached the agent, or never will.
    pub(super) fn record_resolved(&mut self, decision: Option<Decision>, delivery: ResolutionDelivery) {
        if let Some(decision) = decision
            && let DecisionState::Resolving { ruling } = decision.state.clone()
        {
            if delivery == ResolutionDelivery::Message {
                self.add_grant(&decision);
            }
            let state = match ruling.resolved_by {
                ResolvedBy::Timeout { .. } | ResolvedBy::OrphanPolicy | ResolvedBy::RecoveryPolicy => {
                    DecisionState::AutoResolved { ruling, delivery: Some(delivery) }
                }
                ResolvedBy::Owner { .. } | ResolvedBy::DefaultAnswer => {
                    DecisionState::Resolved { ruling, delivery: Some(delivery) }
                }
            };
            self.record_end(decision, state);
        }
    }

    fn record_delivered(&mut self, answer: UnacknowledgedAnswer, delivery: ResolutionDelivery) {
        self.record_resolved(answer.resolves.map(|decision| *decision), delivery);
    }

    /// Records the owner's decision on the output.
    pub(super) fn record_reviewed(&mut self, resolution: Resolution, now: Timestamp) {
        if let Some(decision) = self.reviewed_decision() {
            let ruling = Ruling { resolution, resolved_by: self.owner(), resolved_at: now };
            self.record_end(decision, DecisionState::Resolved { ruling, delivery: None });
        }
    }

    /// Records that the output needs no review any more.
    pub(super) fn record_review_cancelled(&mut self, reason: CancelReason, now: Timestamp) {
        if let Some(decision) = self.reviewed_decision() {
            self.record_end(decision, DecisionState::Cancelled { ended_at: now, reason });
        }
    }

    /// Why the decisions of a session end with it.
    pub(super) const fn end_reason(&self) -> CancelReason {
        match self.status() {
            AgentSessionStatus::Cancelling | AgentSessionStatus::Cancelled => CancelReason::SessionCancelled,
            AgentSessionStatus::Failed => CancelReason::SessionFailed,
            _ => CancelReason::SessionEnded,
        }
    }

    /// The owner's answer of a command that the sidecar has not received yet.
    pub fn unacknowledged_answer(&self, command: CommandId) -> Option<(&ToolCallId, &RequestAnswer)> {
        self.requests.unacknowledged_answer(command)
    }

    /// Forgets an answer that the sidecar received.
    pub(super) fn acknowledge_answer(&mut self, command: CommandId) {
        if let Some(answer) = self.requests.take_answer(command) {
            self.record_delivered(answer, ResolutionDelivery::Command);
        }
    }

    /// Takes an answer that the sidecar refused. Returns it if it has to be sent as a message: the decision on a tool call of a
    /// project's agent, for which no call waits any more.
    pub(crate) fn refuse_answer(&mut self, command: CommandId, code: &str) -> Option<TakenAnswer> {
        let answer = self.requests.take_answer(command)?;
        let judged = answer.resolves.as_ref().is_some_and(|decision| decision.subject.verdict().is_some());
        let works = matches!(self.status(), AgentSessionStatus::Running) || self.status().is_waiting();
        // `turn-over`: the owner interrupted the work that asked.
        if judged && works && code != "turn-over" {
            let taken = TakenAnswer::of(&answer);
            self.record_delivered(answer, ResolutionDelivery::Message);
            return Some(taken);
        }
        self.record_delivered(answer, ResolutionDelivery::Undelivered);
        None
    }

    /// Forgets the answers to a tool call that returned: the agent has them.
    pub(super) fn forget_answers_to(&mut self, call: &ToolCallId) {
        for answer in self.requests.take_answers_to(call) {
            self.record_delivered(answer, ResolutionDelivery::Command);
        }
    }

    /// Forgets the answers that the sidecar has not received, because the work that waits for them is over.
    pub(super) fn forget_answers(&mut self) {
        for answer in self.requests.take_answers() {
            self.record_delivered(answer, ResolutionDelivery::Undelivered);
        }
    }

    /// Takes the answers that the sidecar never received, to send them as messages after the end of its run (decision 26).
    pub(crate) fn take_unacknowledged_answers(&mut self) -> Vec<TakenAnswer> {
        let answers = self.requests.take_answers();
        let taken = answers.iter().map(TakenAnswer::of).collect();
        for answer in answers {
            self.record_delivered(answer, ResolutionDelivery::Message);
        }
        taken
    }

    /// Decides on a request or an output. All routes that decide call this.
    ///
    /// # Errors
    /// The refusal, if the request is over, of another kind, or cannot be decided in this status.
    pub(crate) fn decide(
        &mut self,
        decision: OwnerDecision,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, super::SessionError> {
        match decision {
            OwnerDecision::Answer { request, answers } => self.answer(&request, answers, ctx),
            OwnerDecision::AllowCall { request, terms } => {
                self.allow_call(&request, terms, self.owner(), ctx)
            }
            OwnerDecision::ApprovePlan { request } => self.approve_plan(&request, ctx),
            OwnerDecision::RejectPlan { request, feedback } => self.reject_plan(&request, feedback, ctx),
            OwnerDecision::ApproveOutput { output } => self.approve_output(output, ctx),
            OwnerDecision::RejectOutput { output, reason } => self.reject_output(output, reason, ctx),
        }
    }
}
