//! Plans of the agent and the owner's decision on them (S0 8.4).

use super::answers::TOO_MANY_REQUESTS;
use super::requests::UnacknowledgedAnswer;
use super::{AgentSession, Operation, RequestAnswer, RequestKind, SessionError};
use crate::decision::{ResolvedBy, TimeoutTerms};
use crate::text::{Feedback, PlanContent};
use crate::{DomainContext, Events, SessionEvent, ToolCallId};

impl AgentSession {
    /// Records that the agent entered plan mode (S0 8.4 `RecordPlanCreated`).
    pub(crate) fn enter_plan_mode(&mut self, ctx: &DomainContext<'_>) -> Events {
        self.requests.draft_plan(self.definition.settings.agent.plan_approval_required, ctx.now);
        vec![SessionEvent::PlanCreated {}]
    }

    /// Running → `WaitingForApproval` (S0 8.4 `RecordPlanPendingApproval`). If no approval is required, the plan is approved at
    /// once.
    pub(crate) fn show_plan(
        &mut self,
        id: ToolCallId,
        content: Option<PlanContent>,
        terms: Option<&TimeoutTerms>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let requires_approval = self.definition.settings.agent.plan_approval_required;
        let version = self.requests.next_plan_version();
        if requires_approval && self.requests.is_full_for(&id) {
            self.check(Operation::RecordPlanPendingApproval)?;
            return Ok(self.deny_plan(id, ctx));
        }
        if requires_approval {
            let kind = RequestKind::Plan { version };
            self.open_request(Operation::RecordPlanPendingApproval, &id, kind, terms, ctx)?;
        } else {
            self.check(Operation::RecordPlanAutoApproved)?;
        }
        self.requests.submit_plan(content, version, requires_approval, ctx.now);
        Ok(vec![SessionEvent::PlanPendingApproval { request_id: id, requires_approval, version }])
    }

    /// Rejects a plan for which there is no place among the open requests, so that the agent does not wait for ever.
    pub(crate) fn deny_plan(&mut self, id: ToolCallId, ctx: &mut DomainContext<'_>) -> Events {
        let Some(command) = self.run_state.command(ctx) else { return Events::new() };
        let feedback = Feedback::from_static(TOO_MANY_REQUESTS);
        self.requests.record_answer(UnacknowledgedAnswer {
            request_id: id.clone(),
            answer: RequestAnswer::Rejected(feedback.clone()),
            resolves: None,
            command_id: command.command_id,
            attempt: command.attempt,
            sent_at: ctx.now,
        });
        vec![SessionEvent::PlanRejected { request_id: id, feedback, command: Some(command) }]
    }

    fn ensure_plan_request(&self, id: &ToolCallId) -> Result<(), SessionError> {
        match self.requests.get(id).map(|r| &r.kind) {
            Some(RequestKind::Plan { .. }) => Ok(()),
            Some(RequestKind::Question { .. }) => Err(SessionError::WrongKindOfRequest { expected: "plan" }),
            None => Err(SessionError::RequestOver),
        }
    }

    /// `WaitingForApproval` → Running (S0 8.4 `RecordPlanApproved`).
    pub fn approve_plan(
        &mut self,
        id: &ToolCallId,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.ensure_plan_request(id)?;
        self.ensure_not_held()?;
        self.spending.ensure_budget()?;
        let command = self.close_request(
            Operation::RecordPlanApproved,
            id,
            RequestAnswer::Approved,
            Some(self.owner()),
            ctx,
        )?;
        self.requests.approve_plan(ctx.now);
        Ok(vec![SessionEvent::PlanApproved { request_id: id.clone(), command }])
    }

    /// `WaitingForApproval` → Running, where the agent revises its plan (S0 8.4 `RecordPlanRejected`).
    pub fn reject_plan(
        &mut self,
        id: &ToolCallId,
        feedback: Feedback,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.ensure_plan_request(id)?;
        self.ensure_not_held()?;
        self.spending.ensure_budget()?;
        self.reject_plan_by(id, feedback, Some(self.owner()), ctx)
    }

    pub(super) fn reject_plan_by(
        &mut self,
        id: &ToolCallId,
        feedback: Feedback,
        by: Option<ResolvedBy>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let answer = RequestAnswer::Rejected(feedback.clone());
        let command = self.close_request(Operation::RecordPlanRejected, id, answer, by, ctx)?;
        self.requests.reject_plan();
        Ok(vec![SessionEvent::PlanRejected { request_id: id.clone(), feedback, command }])
    }
}
