//! Questions and plans of the agent (S0 8.4, ruling 26): open requests by id, and the status that they block.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentFact, AgentSession, LifecycleCommand, Operation, SessionError, State};
use crate::text::{Feedback, PlanContent, cut};
use crate::value::{Answer, FailureReason, PlanStatus, Question, SessionPlan};
use crate::{CommandId, CommandRef, DomainEvent, Events, Occasion, Timestamp, ToolCallId};

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

/// What the owner decided on a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// The answers to its questions.
    Answered(Vec<Answer>),
    /// The plan may be carried out.
    Approved,
    /// The plan is to be revised.
    Rejected(Feedback),
}

impl Decision {
    /// As a message to an agent that does not wait for it any more (ruling 26).
    pub(crate) fn as_message(&self) -> String {
        match self {
            Self::Answered(answers) => {
                let lines: Vec<_> = answers.iter().map(|a| format!("{}: {}", a.question, a.answer)).collect();
                format!("Answers to your questions.\n{}", lines.join("\n"))
            }
            Self::Approved => "Your plan is approved; go on.".to_owned(),
            Self::Rejected(feedback) => format!("Your plan is rejected; revise it. {feedback}"),
        }
    }
}

/// A decision that was sent to the sidecar, until that has it (ruling 12).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnheardAnswer {
    pub(crate) request_id: ToolCallId,
    pub(crate) decision: Decision,
    pub(crate) command_id: CommandId,
    /// Counts its sendings from 1.
    pub(crate) attempt: u8,
    pub(crate) sent_at: Timestamp,
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
        if self.is_between_turns() {
            // The turn is over, and nobody waits for anything.
            return Err(SessionError::InvalidTransition { operation, status: self.status() });
        }
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
        let decision = Decision::Answered(answers.clone());
        let command = self.close_request(Operation::RecordUserQuestionAnswered, id, decision, cx)?;
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
        let command = self.close_request(Operation::RecordPlanApproved, id, Decision::Approved, cx)?;
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
        let decision = Decision::Rejected(feedback.clone());
        let command = self.close_request(Operation::RecordPlanRejected, id, decision, cx)?;
        if let Some(plan) = &mut self.plan {
            plan.status = PlanStatus::Rejected;
        }
        Ok(vec![DomainEvent::PlanRejected { request_id: id.clone(), feedback, command }])
    }

    fn close_request(
        &mut self,
        operation: Operation,
        id: &ToolCallId,
        decision: Decision,
        cx: &mut Occasion<'_>,
    ) -> Result<Option<CommandRef>, SessionError> {
        self.check(operation)?;
        let command = self.command(cx);
        self.pending_requests.retain(|r| r.id != *id);
        if let Some(CommandRef { command_id, attempt, .. }) = command {
            let request_id = id.clone();
            let sent_at = cx.now;
            self.unheard_answers.push(UnheardAnswer { request_id, decision, command_id, attempt, sent_at });
        }
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
        self.unheard_answers.retain(|answer| answer.request_id != *call);
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

    /// What the owner decided, as long as the sidecar does not have it.
    pub fn unheard_decision(&self, command: CommandId) -> Option<(&ToolCallId, &Decision)> {
        let answer = self.unheard_answers.iter().find(|answer| answer.command_id == command)?;
        Some((&answer.request_id, &answer.decision))
    }

    /// When the answer that has waited longest for its `received` was sent.
    pub(crate) fn unheard_answer_since(&self) -> Option<Timestamp> {
        self.unheard_answers.iter().map(|answer| answer.sent_at).min()
    }

    /// The sidecar has it, or will not have it.
    pub(crate) fn answer_heard(&mut self, command: CommandId) {
        self.unheard_answers.retain(|answer| answer.command_id != command);
    }

    /// No `received` for an answer: once more, then the process is stopped (ruling 12). The answer goes as a message when
    /// that has ended.
    pub(crate) fn on_unheard_answer(&mut self, cx: &mut Occasion<'_>) -> Events {
        let Some(run_id) = self.run.as_ref().map(|run| run.id) else { return Vec::new() };
        let Some(oldest) = self.unheard_answers.iter_mut().min_by_key(|answer| answer.sent_at) else {
            return Vec::new();
        };
        if oldest.attempt >= 2 {
            return self.order_kill(false, cx);
        }
        oldest.attempt += 1;
        oldest.sent_at = cx.now;
        let command = CommandRef { command_id: oldest.command_id, run_id, attempt: oldest.attempt };
        vec![DomainEvent::CommandReissued { kind: LifecycleCommand::Answer, command }]
    }

    /// Decisions that the sidecar never had: its run is over, and they go as messages (ruling 26).
    pub(crate) fn take_unheard_answers(&mut self) -> Vec<(ToolCallId, Decision)> {
        let unheard = std::mem::take(&mut self.unheard_answers);
        unheard.into_iter().map(|answer| (answer.request_id, answer.decision)).collect()
    }

    /// Requests that nobody answered in time: the default answer, or failure (ruling 26).
    pub(crate) fn expire_requests(&mut self, cx: &mut Occasion<'_>) -> Result<Events, SessionError> {
        let mut events = Vec::new();
        while let Some(request) = self.pending_requests.iter().find(|r| r.expires_at <= cx.now).cloned() {
            match (&request.kind, &self.settings.default_answer) {
                (RequestKind::Question { questions }, Some(default)) if !self.budget.exhausted() => {
                    let answer =
                        |q: &Question| Answer { question: q.question.clone(), answer: default.clone() };
                    let answers: Vec<_> = questions.iter().map(answer).collect();
                    let command = self.close_request(
                        Operation::RecordUserQuestionAnswered,
                        &request.id,
                        Decision::Answered(answers.clone()),
                        cx,
                    )?;
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
