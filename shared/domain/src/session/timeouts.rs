//! Timeouts of requests in a project (S2 `DecisionTimeoutPolicy`; decision 77): what happens when the due tick is reached.
//!
//! The session cannot read ticks. Its deadline is the estimated time of the due tick. When that time comes, the ticks are read; if the
//! tick is not reached, the deadline is set again. A change of the rate, and a manual advance, set the deadlines of all open requests.

use std::time::Duration;

use super::{AgentSession, Operation, PendingRequest, RequestAnswer, RequestKind, SessionError};
use crate::decision::{ApprovalTerms, ResolvedBy, TimedDecision, TimeoutAction, TimeoutRule};
use crate::text::Feedback;
use crate::tick::{Tick, TickReading};
use crate::value::{Answer, Question};
use crate::{DomainContext, Events, SessionEvent, ToolCallId};

/// Time after which ticks that could not be read are read again.
const RETRY: Duration = Duration::from_mins(1);

/// What an agent receives when its request is cancelled.
const TOO_LATE: &str = "the time to decide is over; find another way or ask again later";

impl AgentSession {
    /// Sets the deadlines of open requests by the ticks of the project, and applies the policies of those that are due. `None`:
    /// nothing changed.
    pub(crate) fn follow_ticks(
        &mut self,
        ticks: TickReading,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Option<Events>, SessionError> {
        if !self.status().is_waiting() || self.is_held() {
            return Ok(None);
        }
        let mut moved = Vec::new();
        for request in self.requests.pending() {
            let Some(timeout) = &request.timeout else { continue };
            let Some(due) = timeout.due_tick else { continue };
            let at = if ticks.tick >= due { Some(ctx.now) } else { ticks.estimate(due) };
            if at != request.expires_at {
                moved.push((request.id.clone(), due));
            }
        }
        for (id, due) in &moved {
            self.set_due(id, Some(*due), ticks, ctx);
        }
        let events = self.expire_requests(Some(ticks), ctx)?;
        Ok((!moved.is_empty() || !events.is_empty()).then_some(events))
    }

    /// Sets the due tick of a request, with its estimated time.
    fn set_due(&mut self, id: &ToolCallId, due: Option<Tick>, ticks: TickReading, ctx: &DomainContext<'_>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.expires_at =
            due.and_then(|due| if ticks.tick >= due { Some(ctx.now) } else { ticks.estimate(due) });
        if let Some(timeout) = &mut request.timeout {
            timeout.due_tick = due;
        }
        self.record_opened(id);
    }

    /// Applies the policy of a request whose estimated time has come.
    pub(super) fn time_out(
        &mut self,
        request: &PendingRequest,
        ticks: Option<TickReading>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let (Some(ticks), Some(timeout)) = (ticks, &request.timeout) else {
            if let Some(request) = self.requests.get_mut(&request.id) {
                request.expires_at = Some(ctx.now + RETRY);
            }
            return Ok(Vec::new());
        };
        match timeout.due_tick {
            Some(due) if ticks.tick < due => {
                self.set_due(&request.id, Some(due), ticks, ctx);
                // The estimate may have been rounded down.
                if let Some(request) = self.requests.get_mut(&request.id) {
                    let soon = ctx.now + Duration::from_millis(1);
                    request.expires_at = request.expires_at.map(|at| at.max(soon));
                }
                Ok(Vec::new())
            }
            Some(_) if !self.budget().blocked() => self.fire(request, ticks, ctx),
            // The time starts again after a brake, and while an exhausted budget keeps the agent from continuing.
            _ => {
                let due = timeout.policy.due(ticks.tick);
                self.set_due(&request.id, due, ticks, ctx);
                Ok(Vec::new())
            }
        }
    }

    fn fire(
        &mut self,
        request: &PendingRequest,
        ticks: TickReading,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let id = &request.id;
        let decision = self.decision_on(request);
        let Some(mut timeout) = decision.timeout.clone() else { return Ok(Vec::new()) };
        let (severity, blast_radius) = decision.rank();
        let timed = TimedDecision {
            kind: decision.kind(),
            severity,
            blast_radius,
            effects: decision.subject.verdict().map(|verdict| &verdict.effects),
            has_recommendation: recommended(request).is_some(),
            requires_rationale: decision.subject.verdict().is_some_and(|verdict| verdict.requires_rationale),
            extensions: timeout.extensions,
        };
        let action = timeout.policy.on_timeout(&timed, ticks.tick);
        let fired = timeout.fire(action, ticks.tick, ctx.now);
        let (rule, due) = (timeout.rule, timeout.due_tick);
        let (severity, extensions) = (timeout.severity, timeout.extensions);
        if let Some(request) = self.requests.get_mut(id) {
            request.timeout = Some(Box::new(timeout));
        }
        let mut events = vec![SessionEvent::RequestTimedOut {
            request_id: id.clone(),
            decision_id: decision.id,
            kind: decision.kind(),
            timeout: fired,
            severity,
            extensions,
        }];
        match action {
            TimeoutAction::AutoResolve => events.extend(self.auto_resolve(id, rule, ctx)?),
            TimeoutAction::Cancel => events.extend(self.cancel_timed_out(id, ctx)?),
            TimeoutAction::Escalate { .. } | TimeoutAction::Extend { .. } => {
                self.set_due(id, due, ticks, ctx);
                self.touch_control();
            }
        }
        Ok(events)
    }

    fn auto_resolve(
        &mut self,
        id: &ToolCallId,
        rule: TimeoutRule,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let by = ResolvedBy::Timeout { rule };
        match self.requests.get(id).and_then(recommended).map(str::to_owned) {
            Some(label) => self.answer_timed_out(id, &label, Some(by), ctx),
            None => self.allow_call(id, ApprovalTerms::default(), by, ctx),
        }
    }

    /// Rejects the call or plan, or answers the question as expired.
    fn cancel_timed_out(
        &mut self,
        id: &ToolCallId,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let Some(request) = self.requests.get(id).cloned() else { return Ok(Vec::new()) };
        self.record_expired(&request, ctx.now);
        let RequestKind::Question { approval, .. } = &request.kind else {
            return match Feedback::parse(TOO_LATE) {
                Ok(feedback) => self.reject_plan_by(id, feedback, None, ctx),
                Err(_) => Ok(Vec::new()),
            };
        };
        let text = approval
            .as_ref()
            .map_or_else(|| format!("No answer: {TOO_LATE}."), |approval| approval.denial(Some(TOO_LATE)));
        self.answer_timed_out(id, &text, None, ctx)
    }

    /// Answers each question with the same text.
    fn answer_timed_out(
        &mut self,
        id: &ToolCallId,
        text: &str,
        by: Option<ResolvedBy>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let Some(request) = self.requests.get(id) else { return Ok(Vec::new()) };
        let RequestKind::Question { questions, .. } = &request.kind else { return Ok(Vec::new()) };
        let answer = |q: &Question| Answer { question: q.question.clone(), answer: text.to_owned() };
        let answers: Vec<_> = questions.iter().map(answer).collect();
        let resolution = RequestAnswer::Answered(answers.clone());
        let decision_id = self.decision_about(id);
        let command = self.close_request(Operation::RecordUserQuestionAnswered, id, resolution, by, ctx)?;
        Ok(vec![SessionEvent::InputReceived {
            request_id: id.clone(),
            answers,
            by_default: true,
            modified_input: None,
            command,
            decision_id,
        }])
    }
}

/// The label of the option that the agent recommends.
fn recommended(request: &PendingRequest) -> Option<&str> {
    let RequestKind::Question { proposal: Some(proposal), .. } = &request.kind else { return None };
    let id = proposal.assessment.recommended_option_id.as_ref()?;
    proposal.options.iter().find(|option| option.id == *id).map(|option| option.label.as_str())
}
