//! Questions of the agent and the owner's answers (S0 8.4, decision 26), and the waiting statuses that open requests cause.

use std::time::Duration;

use super::requests::UnacknowledgedAnswer;
use super::{AgentSession, Operation, PendingRequest, RequestAnswer, RequestKind, SessionError, State};
use crate::decision::{ApprovalTerms, ResolutionDelivery, ResolvedBy, TimeoutTerms};
use crate::escalation::ToolApproval;
use crate::text::cut;
use crate::tick::TickReading;
use crate::value::{Answer, FailureReason, OptionProposal, Question};
use crate::{CommandRef, DomainContext, Events, SessionEvent, Timestamp, ToolCallId};

/// Most questions of a request.
const MAX_QUESTIONS: usize = 20;
/// Most text of one request's questions, in bytes: open requests are part of the session's item.
const MAX_QUESTION_BYTES: usize = 8 * 1024;

/// Why a request is denied at once.
pub(super) const TOO_MANY_REQUESTS: &str =
    "too many requests of this session wait for their owner; ask again later";

/// Adds the texts of questions beyond the limit to the last one that fits, which then has no options.
fn merge_excess(questions: &mut Vec<Question>) {
    if questions.len() > MAX_QUESTIONS {
        let excess = questions.split_off(MAX_QUESTIONS - 1);
        let texts: Vec<_> = excess.into_iter().map(|question| question.question).collect();
        questions.push(Question {
            question: texts.join("\n"),
            header: None,
            options: Vec::new(),
            multi_select: false,
        });
    }
}

/// Shortens questions to the limits (decision 6). The journal has them in full.
fn fit(
    questions: &mut Vec<Question>,
    approval: Option<&mut ToolApproval>,
    proposal: Option<&mut OptionProposal>,
) {
    merge_excess(questions);
    let mut left = MAX_QUESTION_BYTES;
    let mut take = |text: &mut String, most: usize| {
        let characters = most.min(left / 4);
        *text = cut(text, characters);
        left = left.saturating_sub(text.len());
    };
    let mut input = None;
    if let Some(approval) = approval {
        take(&mut approval.tool_name, 200);
        take(&mut approval.allow, 500);
        take(&mut approval.deny, 500);
        input = Some(&mut approval.input);
    }
    for question in questions.iter_mut() {
        take(&mut question.question, 2000);
    }
    for question in questions.iter_mut() {
        question.options.truncate(50);
        for option in &mut question.options {
            take(&mut option.label, 500);
            option.description.iter_mut().for_each(|text| take(text, 1000));
        }
        question.options.retain(|option| !option.label.is_empty());
    }
    if let Some(input) = input {
        take(input, ToolApproval::MAX_INPUT);
    }
    for option in proposal.into_iter().flat_map(|proposal| &mut proposal.options) {
        let texts = [&mut option.description, &mut option.tradeoffs];
        texts.into_iter().flatten().for_each(|text| take(text, OptionProposal::MAX_TEXT));
    }
}

impl AgentSession {
    pub(super) fn open_request(
        &mut self,
        operation: Operation,
        id: &ToolCallId,
        kind: RequestKind,
        terms: Option<&TimeoutTerms>,
        ctx: &DomainContext<'_>,
    ) -> Result<Option<Timestamp>, SessionError> {
        self.check(operation)?;
        if self.is_between_turns() {
            // The turn is over, so the agent does not wait.
            return Err(SessionError::InvalidTransition { operation, status: self.status() });
        }
        let seconds = self.definition.settings.request_timeout_seconds;
        let timeout = terms.map(|terms| Box::new(terms.begin()));
        let expires_at = match (terms, &timeout) {
            (Some(terms), Some(timeout)) => timeout.due_tick.and_then(|due| terms.ticks.estimate(due)),
            _ => Some(ctx.now + Duration::from_secs(seconds)),
        };
        let request = PendingRequest { id: id.clone(), kind, asked_at: ctx.now, expires_at, timeout };
        if self.requests.open(request, self.run_state.current_id()) {
            self.record_opened(id);
            self.checkpoint_decision(ctx.now);
        }
        self.rest_by_requests();
        Ok(expires_at)
    }

    /// Enters the waiting status of the oldest open request, or Running if there is none.
    pub(super) fn rest_by_requests(&mut self) {
        let state = match self.requests.pending().first().map(|r| &r.kind) {
            Some(RequestKind::Question { .. }) => State::WaitingForInput,
            Some(RequestKind::Plan { .. }) => State::WaitingForApproval,
            None => State::Running,
        };
        self.enter(state);
    }

    /// Running → `WaitingForInput` (S0 8.4 `RecordUserQuestionAsked`).
    pub(crate) fn ask(
        &mut self,
        id: ToolCallId,
        mut questions: Vec<Question>,
        (mut approval, proposal): (Option<ToolApproval>, Option<OptionProposal>),
        terms: Option<&TimeoutTerms>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut proposal = proposal.and_then(OptionProposal::fitting);
        fit(&mut questions, approval.as_mut(), proposal.as_mut());
        if self.requests.is_full_for(&id) {
            return self.deny_request(id, &questions, approval.as_ref(), ctx);
        }
        let kind = RequestKind::Question {
            questions: questions.clone(),
            approval,
            proposal: proposal.map(Box::new),
        };
        let expires_at = self.open_request(Operation::RecordUserQuestionAsked, &id, kind, terms, ctx)?;
        Ok(vec![SessionEvent::WaitingForInput { request_id: id, questions, expires_at }])
    }

    /// Denies a request that came while too many are open: nothing is done without a person, and the agent does not wait for ever.
    fn deny_request(
        &mut self,
        id: ToolCallId,
        questions: &[Question],
        approval: Option<&ToolApproval>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        self.check(Operation::RecordUserQuestionAsked)?;
        Ok(self.deny(id, questions, approval, ctx))
    }

    /// Denies a request for which there is no place.
    pub(crate) fn deny(
        &mut self,
        id: ToolCallId,
        questions: &[Question],
        approval: Option<&ToolApproval>,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let Some(command) = self.run_state.command(ctx) else { return Vec::new() };
        let denial = approval.map_or_else(
            || TOO_MANY_REQUESTS.to_owned(),
            |approval| approval.denial(Some(TOO_MANY_REQUESTS)),
        );
        let answer = |q: &Question| Answer { question: q.question.clone(), answer: denial.clone() };
        let answers: Vec<_> = questions.iter().map(answer).collect();
        self.requests.record_answer(UnacknowledgedAnswer {
            request_id: id.clone(),
            answer: RequestAnswer::Answered(answers.clone()),
            resolves: None,
            command_id: command.command_id,
            attempt: command.attempt,
            sent_at: ctx.now,
        });
        vec![SessionEvent::RequestDenied { request_id: id, answers, command }]
    }

    /// Answers a question: `WaitingForInput` → Running, or waiting for the next request (S0 8.4 `RecordUserQuestionAnswered`).
    ///
    /// Without a sidecar the session becomes Idle and the event has no command. The caller then sends the answer as a message
    /// (decision 26).
    pub fn answer(
        &mut self,
        id: &ToolCallId,
        answers: Vec<Answer>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let request = self.requests.get(id).ok_or(SessionError::RequestOver)?;
        let RequestKind::Question { questions, approval, .. } = &request.kind else {
            return Err(SessionError::WrongKindOfRequest { expected: "question" });
        };
        if approval.as_ref().is_some_and(|approval| {
            approval.requires_rationale() && answers.iter().any(|given| approval.is_allowed_by(&given.answer))
        }) {
            return Err(SessionError::RationaleMissing);
        }
        let missing: Vec<String> = questions
            .iter()
            .filter(|q| answers.iter().filter(|a| a.question == q.question).count() != 1)
            .map(|q| q.question.clone())
            .collect();
        if !missing.is_empty() {
            return Err(SessionError::AnswersMissing { missing });
        }
        self.ensure_not_held()?;
        self.spending.ensure_budget()?;
        let answer = RequestAnswer::Answered(answers.clone());
        let decision_id = self.decision_about(id);
        let command =
            self.close_request(Operation::RecordUserQuestionAnswered, id, answer, Some(self.owner()), ctx)?;
        Ok(vec![SessionEvent::InputReceived {
            request_id: id.clone(),
            answers,
            by_default: false,
            modified_input: None,
            command,
            decision_id,
        }])
    }

    /// Allows the tool call that a request asks permission for (S2 `Resolution`).
    pub(super) fn allow_call(
        &mut self,
        id: &ToolCallId,
        terms: ApprovalTerms,
        by: ResolvedBy,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let request = self.requests.get(id).ok_or(SessionError::RequestOver)?;
        let RequestKind::Question { questions, approval: Some(approval), .. } = &request.kind else {
            return Err(SessionError::WrongKindOfRequest { expected: "permission" });
        };
        let allow = |q: &Question| Answer { question: q.question.clone(), answer: approval.allow.clone() };
        let answers: Vec<_> = questions.iter().map(allow).collect();
        let modified_input = terms.modified_input.clone();
        self.ensure_not_held()?;
        self.spending.ensure_budget()?;
        let answer = RequestAnswer::Allowed { answers: answers.clone(), terms };
        let decision_id = self.decision_about(id);
        let by_default = !matches!(by, ResolvedBy::Owner { .. });
        let command = self.close_request(Operation::RecordUserQuestionAnswered, id, answer, Some(by), ctx)?;
        Ok(vec![SessionEvent::InputReceived {
            request_id: id.clone(),
            answers,
            by_default,
            modified_input,
            command,
            decision_id,
        }])
    }

    /// Closes a request with an answer. Without `by` the decision is over, and the answer only says so to the agent.
    pub(super) fn close_request(
        &mut self,
        operation: Operation,
        id: &ToolCallId,
        answer: RequestAnswer,
        by: Option<ResolvedBy>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Option<CommandRef>, SessionError> {
        self.check(operation)?;
        let command = self.run_state.command(ctx);
        let decision = by.and_then(|by| self.resolving(id, &answer, by, ctx.now));
        self.requests.close(id);
        if let Some(CommandRef { command_id, attempt, .. }) = command {
            if let Some(decision) = &decision {
                self.record_resolving(decision);
            }
            self.requests.record_answer(UnacknowledgedAnswer {
                request_id: id.clone(),
                answer,
                resolves: decision.map(Box::new),
                command_id,
                attempt,
                sent_at: ctx.now,
            });
        } else {
            self.record_resolved(decision, ResolutionDelivery::Message);
        }
        if command.is_none() && self.requests.pending().is_empty() {
            self.transition(Operation::AnswerHibernated, State::Idle)?;
            // The turn that asked ended with its process.
            self.delivery.close_turn();
        } else {
            self.rest_by_requests();
        }
        Ok(command)
    }

    /// Closes the request of a tool call that returned.
    pub(crate) fn close_request_of(&mut self, call: &ToolCallId, now: Timestamp) -> Events {
        self.forget_answers_to(call);
        // A deferred request ends before it was opened.
        if self.delivery.drop_deferred_request(call) {
            return vec![SessionEvent::RequestClosed { request_id: call.clone() }];
        }
        self.record_withdrawn(call, now);
        if !self.requests.withdraw(call) {
            return Vec::new();
        }
        if self.check(Operation::CloseRequest).is_ok() {
            self.rest_by_requests();
        }
        vec![SessionEvent::RequestClosed { request_id: call.clone() }]
    }

    /// An answer was not received: send it once more, then stop the process (decision 12). When the process has ended, the answer
    /// is sent as a message.
    pub(super) fn on_unacknowledged_answer(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let Some(run_id) = self.run_state.current_id() else { return Vec::new() };
        if !self.requests.has_unacknowledged_answers() {
            return Vec::new();
        }
        match self.requests.resend_answer(run_id, ctx.now) {
            Some(resent) => vec![resent],
            None => self.order_kill(false, ctx),
        }
    }

    /// Handles requests that timed out: uses the default answer or fails the session (decision 26).
    pub(crate) fn expire_requests(
        &mut self,
        ticks: Option<TickReading>,
        ctx: &mut DomainContext<'_>,
    ) -> Result<Events, SessionError> {
        let mut events = Vec::new();
        while let Some(request) = self.requests.expired(ctx.now).cloned() {
            if request.timeout.is_some() {
                events.extend(self.time_out(&request, ticks, ctx)?);
                continue;
            }
            match (&request.kind, &self.definition.settings.default_answer) {
                (RequestKind::Question { questions, .. }, Some(default)) if !self.budget().blocked() => {
                    let answer =
                        |q: &Question| Answer { question: q.question.clone(), answer: default.clone() };
                    let answers: Vec<_> = questions.iter().map(answer).collect();
                    let decision_id = self.decision_about(&request.id);
                    let command = self.close_request(
                        Operation::RecordUserQuestionAnswered,
                        &request.id,
                        RequestAnswer::Answered(answers.clone()),
                        Some(ResolvedBy::DefaultAnswer),
                        ctx,
                    )?;
                    events.push(SessionEvent::InputReceived {
                        request_id: request.id,
                        answers,
                        by_default: true,
                        modified_input: None,
                        command,
                        decision_id,
                    });
                }
                _ => {
                    let what = match request.kind {
                        RequestKind::Question { .. } => "The agent's question was not answered in time.",
                        RequestKind::Plan { .. } => "The agent's plan was not approved or rejected in time.",
                    };
                    self.record_expired(&request, ctx.now);
                    events.extend(self.record_failure(FailureReason::Timeout, Some(what.to_owned()), ctx)?);
                    break;
                }
            }
        }
        Ok(events)
    }
}
