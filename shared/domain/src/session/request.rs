//! Questions and plans of the agent (S0 8.4, ruling 26): open requests by id, and the status that they block.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentFact, AgentSession, Operation, SessionError, State};
use crate::text::{Feedback, PlanContent, cut};
use crate::value::{Answer, FailureReason, PlanStatus, Question, SessionPlan};
use crate::{CommandRef, DomainEvent, Events, Occasion, Timestamp, ToolCallId};

/// Something that the agent waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingRequest {
    /// Its id: the tool call that made it.
    pub id: ToolCallId,
    /// What it is.
    #[serde(flatten)]
    pub kind: RequestKind,
    /// When it was made.
    pub asked_at: Timestamp,
    /// When it is overdue.
    pub expires_at: Timestamp,
}

/// What a request is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum RequestKind {
    /// Questions to answer.
    Question {
        /// What is asked.
        questions: Vec<Question>,
    },
    /// A plan to decide on.
    Plan {
        /// Which revision of it.
        version: u32,
    },
}

/// The most text of one request's questions, in bytes: open requests stand in the session's own item.
const MAX_QUESTION_BYTES: usize = 8 * 1024;

/// Cuts what an agent asks to what fits (ruling 6). The whole stands in the journal.
fn fit(questions: &mut Vec<Question>) {
    questions.truncate(20);
    let mut left = MAX_QUESTION_BYTES;
    let mut take = |text: &mut String, most: usize| {
        let characters = most.min(left / 4);
        *text = cut(text, characters);
        left = left.saturating_sub(text.len());
    };
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
}

impl AgentSession {
    /// The most requests that can be open at once; more from an agent are recorded and do not block.
    pub const MAX_PENDING_REQUESTS: usize = 20;

    fn open_request(
        &mut self,
        operation: Operation,
        id: ToolCallId,
        kind: RequestKind,
        cx: &Occasion<'_>,
    ) -> Result<Timestamp, SessionError> {
        self.check(operation)?;
        let expires_at = cx.now + Duration::from_secs(self.settings.request_timeout_seconds);
        if !self.pending_requests.iter().any(|r| r.id == id)
            && self.pending_requests.len() < Self::MAX_PENDING_REQUESTS
        {
            self.pending_requests.push(PendingRequest { id, kind, asked_at: cx.now, expires_at });
        }
        self.rest_by_requests();
        Ok(expires_at)
    }

    /// The status that the oldest open request blocks, or Running.
    fn rest_by_requests(&mut self) {
        let state = match self.pending_requests.first().map(|r| &r.kind) {
            Some(RequestKind::Question { .. }) => State::WaitingForInput,
            Some(RequestKind::Plan { .. }) => State::WaitingForApproval,
            None => State::Running,
        };
        self.enter(state);
    }

    /// `RecordUserQuestionAsked(…)`: Running → `WaitingForInput`.
    pub(crate) fn ask(
        &mut self,
        id: ToolCallId,
        mut questions: Vec<Question>,
        cx: &Occasion<'_>,
    ) -> Result<Events, SessionError> {
        fit(&mut questions);
        let kind = RequestKind::Question { questions: questions.clone() };
        let expires_at = self.open_request(Operation::RecordUserQuestionAsked, id.clone(), kind, cx)?;
        Ok(vec![DomainEvent::WaitingForInput { request_id: id, questions, expires_at }])
    }

    /// `RecordUserQuestionAnswered(answer)`: `WaitingForInput` → Running, or waiting for the next request.
    ///
    /// Without a sidecar the session goes Idle: the answer is to be sent as a message (ruling 26), which the
    /// caller does when the event carries no command.
    pub fn answer(
        &mut self,
        id: &ToolCallId,
        answers: Vec<Answer>,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let request = self.pending_requests.iter().find(|r| r.id == *id).ok_or(SessionError::RequestOver)?;
        let RequestKind::Question { questions } = &request.kind else {
            return Err(SessionError::WrongKindOfRequest { expected: "question" });
        };
        let missing: Vec<String> = questions
            .iter()
            .filter(|q| answers.iter().filter(|a| a.question == q.question).count() != 1)
            .map(|q| q.question.clone())
            .collect();
        if !missing.is_empty() {
            return Err(SessionError::AnswersMissing { missing });
        }
        self.ensure_budget()?;
        let command = self.close_request(Operation::RecordUserQuestionAnswered, id, cx)?;
        Ok(vec![DomainEvent::InputReceived { request_id: id.clone(), answers, by_default: false, command }])
    }

    /// `RecordPlanCreated()`: the agent is in plan mode.
    pub(crate) fn enter_plan_mode(&mut self, cx: &Occasion<'_>) -> Events {
        let version = self.next_plan_version();
        self.plan = Some(SessionPlan {
            content: self.plan.take().and_then(|plan| plan.content),
            status: PlanStatus::Draft,
            requires_approval: self.settings.plan_approval_required,
            created_at: cx.now,
            approved_at: None,
            version,
        });
        vec![DomainEvent::PlanCreated {}]
    }

    /// The revision that is being written: the next one, once the latest was shown (S0 8.5).
    fn next_plan_version(&self) -> u32 {
        self.plan.as_ref().map_or(1, |plan| plan.version + u32::from(plan.status != PlanStatus::Draft))
    }

    /// `RecordPlanPendingApproval(…)`: Running → `WaitingForApproval`, or approved at once when nobody must look.
    pub(crate) fn show_plan(
        &mut self,
        id: ToolCallId,
        content: Option<PlanContent>,
        cx: &Occasion<'_>,
    ) -> Result<Events, SessionError> {
        let requires_approval = self.settings.plan_approval_required;
        let version = self.next_plan_version();
        let created_at = self.plan.as_ref().map_or(cx.now, |plan| plan.created_at);
        if requires_approval {
            self.open_request(
                Operation::RecordPlanPendingApproval,
                id.clone(),
                RequestKind::Plan { version },
                cx,
            )?;
        } else {
            self.check(Operation::RecordPlanAutoApproved)?;
        }
        self.plan = Some(SessionPlan {
            content: content.or_else(|| self.plan.take().and_then(|plan| plan.content)),
            status: if requires_approval { PlanStatus::PendingApproval } else { PlanStatus::Approved },
            requires_approval,
            created_at,
            approved_at: (!requires_approval).then_some(cx.now),
            version,
        });
        Ok(vec![DomainEvent::PlanPendingApproval { request_id: id, requires_approval, version }])
    }

    fn ensure_plan_request(&self, id: &ToolCallId) -> Result<(), SessionError> {
        match self.pending_requests.iter().find(|r| r.id == *id).map(|r| &r.kind) {
            Some(RequestKind::Plan { .. }) => Ok(()),
            Some(RequestKind::Question { .. }) => Err(SessionError::WrongKindOfRequest { expected: "plan" }),
            None => Err(SessionError::RequestOver),
        }
    }

    /// `RecordPlanApproved()`: `WaitingForApproval` → Running.
    pub fn approve_plan(&mut self, id: &ToolCallId, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        self.ensure_plan_request(id)?;
        self.ensure_budget()?;
        let command = self.close_request(Operation::RecordPlanApproved, id, cx)?;
        if let Some(plan) = &mut self.plan {
            plan.status = PlanStatus::Approved;
            plan.approved_at = Some(cx.now);
        }
        Ok(vec![DomainEvent::PlanApproved { request_id: id.clone(), command }])
    }

    /// `RecordPlanRejected(feedback)`: `WaitingForApproval` → Running; the agent revises.
    pub fn reject_plan(
        &mut self,
        id: &ToolCallId,
        feedback: Feedback,
        cx: &mut Occasion<'_>,
    ) -> Result<Events, SessionError> {
        self.ensure_plan_request(id)?;
        self.ensure_budget()?;
        let command = self.close_request(Operation::RecordPlanRejected, id, cx)?;
        if let Some(plan) = &mut self.plan {
            plan.status = PlanStatus::Rejected;
        }
        Ok(vec![DomainEvent::PlanRejected { request_id: id.clone(), feedback, command }])
    }

    fn close_request(
        &mut self,
        operation: Operation,
        id: &ToolCallId,
        cx: &mut Occasion<'_>,
    ) -> Result<Option<CommandRef>, SessionError> {
        self.check(operation)?;
        let command = self.command(cx);
        self.pending_requests.retain(|r| r.id != *id);
        if command.is_none() && self.pending_requests.is_empty() {
            self.transition(Operation::AnswerHibernated, State::Idle)?;
            // The turn that asked ended with its process.
            self.turn = None;
        } else {
            self.rest_by_requests();
        }
        Ok(command)
    }

    /// The result of the tool call that asked is there: its request is over.
    pub(crate) fn close_request_of(&mut self, call: &ToolCallId) -> Events {
        // One that waits for a lifecycle request is over before it was opened.
        let waited = self.deferred.len();
        self.deferred.retain(|fact| {
            !matches!(fact, AgentFact::QuestionAsked { request, .. } | AgentFact::PlanShown { request, .. } if request == call)
        });
        if self.deferred.len() != waited {
            return vec![DomainEvent::RequestClosed { request_id: call.clone() }];
        }
        let before = self.pending_requests.len();
        self.pending_requests.retain(|r| r.id != *call);
        if self.pending_requests.len() == before {
            return Vec::new();
        }
        if self.check(Operation::CloseRequest).is_ok() {
            self.rest_by_requests();
        }
        vec![DomainEvent::RequestClosed { request_id: call.clone() }]
    }

    /// A turn's end, an interrupt or the session's end closes every request.
    pub(crate) fn close_all_requests(&mut self) -> Events {
        std::mem::take(&mut self.pending_requests)
            .into_iter()
            .map(|request| DomainEvent::RequestClosed { request_id: request.id })
            .collect()
    }

    /// Requests that nobody answered in time: the default answer, or failure (ruling 26).
    pub(crate) fn expire_requests(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        let mut events = Vec::new();
        while let Some(request) = self.pending_requests.iter().find(|r| r.expires_at <= cx.now).cloned() {
            match (&request.kind, &self.settings.default_answer) {
                (RequestKind::Question { questions }, Some(default)) if !self.budget.exhausted() => {
                    let answer =
                        |q: &Question| Answer { question: q.question.clone(), answer: default.clone() };
                    let answers = questions.iter().map(answer).collect();
                    let command =
                        self.close_request(Operation::RecordUserQuestionAnswered, &request.id, cx)?;
                    events.push(DomainEvent::InputReceived {
                        request_id: request.id,
                        answers,
                        by_default: true,
                        command,
                    });
                }
                _ => {
                    let what = match request.kind {
                        RequestKind::Question { .. } => "Nobody answered the agent's question in time.",
                        RequestKind::Plan { .. } => "Nobody decided on the agent's plan in time.",
                    };
                    events.extend(self.record_failure(FailureReason::Timeout, Some(what.to_owned()), cx)?);
                    break;
                }
            }
        }
        Ok(events)
    }
}
